"""Where rows come from.

A source is a frozen description; the run time reads it. `Rate` and `Generator` are functions of the
epoch alone, so a source unit that is restarted, or replayed on another node, makes the same rows
again without having kept them. `Files` and `SparkSource` are read by Spark, and their offsets are
recorded per epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from holdfast.errors import BadInputError
from holdfast.pipeline.schema import arrow_schema, parse_schema

if TYPE_CHECKING:
    import numpy as np

FileFormat = Literal["json", "csv", "parquet", "text"]
Row: TypeAlias = "tuple[Any, ...] | Mapping[str, Any]"
GeneratorFunction: TypeAlias = Callable[[int, int], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Rate:
    """Numbered rows at a steady pace: `ts timestamp, value bigint, key bigint`.

    Row `value` belongs to epoch e when floor(r*e) <= value < floor(r*(e+1)), with r rows per epoch;
    its event time lies evenly spread in the epoch, counted from 1970; `key` is a pseudo-random
    number below `keys` that depends on `value` and `seed` alone.
    """

    rows_per_second: float
    keys: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.rows_per_second >= 0:
            raise BadInputError("a Rate needs rows_per_second >= 0", where="Rate")
        if self.keys < 1:
            raise BadInputError("a Rate needs at least one key", where="Rate")

    @property
    def schema(self) -> str:
        return "ts timestamp, value bigint, key bigint"

    def table(self, epoch: int, *, epoch_s: float, shard: int = 0, shards: int = 1) -> Any:
        """The rows of one epoch that one shard makes, as a pyarrow table."""
        import numpy as np  # noqa: PLC0415 - a pipeline is written and looked at without it
        import pyarrow as pa  # noqa: PLC0415 - planning must not need pyarrow

        per_epoch = self.rows_per_second * epoch_s
        first, end = int(per_epoch * epoch), int(per_epoch * (epoch + 1))
        value = np.arange(first, end, dtype=np.int64)
        width_us = epoch_s * 1e6
        share = (value - first) / max(end - first, 1)
        ts = (epoch * width_us + share * width_us).astype(np.int64)
        key = (_mix(value, self.seed) % np.uint64(self.keys)).astype(np.int64)
        schema = arrow_schema(parse_schema(self.schema))
        columns = [pa.array(ts, pa.int64()).cast(schema.field("ts").type)]
        whole = pa.Table.from_arrays([*columns, pa.array(value), pa.array(key)], schema=schema)
        return self.share(whole, shard, shards)

    def share(self, whole: Any, shard: int, shards: int, count: int = 1) -> Any:
        """The rows of an epoch in one of so many parts, or in `count` parts from that one on."""
        if count >= shards:
            return whole
        part = whole["value"].to_numpy() % shards
        return whole.filter((part >= shard) & (part < shard + count))


@dataclass(frozen=True, slots=True)
class Generator:
    """Rows made by a Python function of the epoch and a seed.

    `function(epoch, seed)` returns the rows of one epoch as tuples in column order, or as mappings.
    It must give the same rows, in the same order, whenever it is called with the same arguments;
    shard s of n takes every n-th row from the s-th, so the rows never depend on the sharding.
    """

    function: GeneratorFunction
    schema: str
    """Flat DDL, e.g. `"ts timestamp, line string"`; timestamps are aware datetimes."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise BadInputError("a Generator needs a function(epoch, seed)", where="Generator")
        parse_schema(self.schema, where="Generator")

    def table(self, epoch: int, *, epoch_s: float, shard: int = 0, shards: int = 1) -> Any:  # noqa: ARG002 - same call as Rate.table
        """The rows of one epoch that one shard makes, as a pyarrow table."""
        import pyarrow as pa  # noqa: PLC0415 - planning must not need pyarrow

        schema = arrow_schema(parse_schema(self.schema))
        rows = self.function(epoch, self.seed)
        names = schema.names
        mappings = [row if isinstance(row, Mapping) else _named(row, names) for row in rows]
        return self.share(pa.Table.from_pylist(mappings, schema=schema), shard, shards)

    def share(self, whole: Any, shard: int, shards: int, count: int = 1) -> Any:
        """The rows of an epoch in one of so many parts, or in `count` parts from that one on."""
        import numpy as np  # noqa: PLC0415 - as above

        if count >= shards:
            return whole
        part = np.arange(whole.num_rows) % shards
        return whole.filter((part >= shard) & (part < shard + count))


@dataclass(frozen=True, slots=True)
class Files:
    """Every file that appears in a directory, read once."""

    path: str
    format: FileFormat = "json"
    schema: str = "value string"
    """DDL as Spark reads it; `text` files have the one column `value string`."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Passed to Spark's reader, e.g. `{"header": "true"}`."""
    files_per_epoch: int | None = None
    """Upper bound of files taken in one epoch; None: all that are there."""

    def __post_init__(self) -> None:
        if self.format not in get_args(FileFormat):
            raise BadInputError(
                f"unknown file format {self.format!r}",
                where="Files",
                hint=f"one of {', '.join(get_args(FileFormat))}",
            )
        if self.files_per_epoch is not None and self.files_per_epoch < 1:
            raise BadInputError("files_per_epoch must be at least 1", where="Files")


@dataclass(frozen=True, slots=True)
class SparkSource:
    """Any other streaming source of Spark, by its format name."""

    format: str
    schema: str
    """DDL of the rows the source gives."""
    options: Mapping[str, str] = field(default_factory=dict)


Source: TypeAlias = Rate | Generator | Files | SparkSource
GENERATED = (Rate, Generator)
"""Sources that are functions of the epoch; the others are read by Spark."""


def _named(row: tuple[Any, ...], names: list[str]) -> dict[str, Any]:
    if len(row) != len(names):
        raise BadInputError(
            f"the function gave a row of {len(row)} values for {len(names)} columns",
            where="Generator",
        )
    return dict(zip(names, row, strict=True))


def _mix(value: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """Splitmix64 of value and seed: the same numbers on every platform and numpy version."""
    import numpy as np  # noqa: PLC0415 - as above

    with np.errstate(over="ignore"):
        mixed = value.astype(np.uint64) + np.uint64(seed % 2**64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))
