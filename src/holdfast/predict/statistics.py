"""What was measured: the numbers of one pipeline on one machine, as a frozen value and a file.

`holdfast profile` writes such a file and `holdfast plan --stats` reads it. Times are seconds, sizes
bytes, rates tuples per second, whatever units a topology file counts in. Every number says how it
was obtained and how certain it is, because a bound that is planned on a guess is a guess.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from holdfast.errors import BadInputError
from holdfast.inputs import decode, parse_json, read_input, refusal

FORMAT = "holdfast-statistics-1"
REFERENCE_QUERIES = 2
"""Queries that are taken over at once when restores are measured: one that counts, one exporter."""
NORMAL_95 = 1.6448536269514722
"""The 95th percentile of the standard normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number with its certainty."""

    value: float
    """The median of a duration; the mean of everything else."""
    p95: float | None = None
    """95th percentile of single occurrences, for durations that vary from one to the next."""
    error: float = 0.0
    """Standard error of `value`, for means; how far off the number itself may be."""
    samples: int = 0
    """How many observations it rests on; 0: none, it was derived or assumed."""
    how: str = "assumed"
    """How it was measured, in words."""
    values: tuple[float, ...] = ()
    """Some of the single occurrences, for durations: what recoveries are predicted from."""

    @property
    def high(self) -> float:
        """What it stays below 19 times in 20."""
        return self.value + NORMAL_95 * self.error if self.p95 is None else self.p95


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """A cost with a fixed part per access and a part per byte, in seconds."""

    fixed: Measure
    per_byte: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStatistics:
    """What one operator does. A number that is None was not measured: the topology's is taken."""

    input_rate: Measure | None = None
    """Tuples per second received."""
    output_rate: Measure | None = None
    """Tuples per second put out; None: input rate times selectivity."""
    selectivity: Measure | None = None
    cost: Measure | None = None
    """Seconds per tuple received."""
    batch_fixed: Measure | None = None
    """Seconds that every batch takes longer with this operator, whatever its tuples; None: what
    keeping state takes on this machine, if it does."""
    first_fixed: Measure | None = None
    """Seconds that the first batch after a restart takes longer still."""
    build: Measure | None = None
    """Seconds that a query of it takes longer than others until it runs on a warm spare; None: as
    long as others."""
    takeover_cpu: Measure | None = None
    """Cores that a query of it keeps busy while it is taken over; None: as many as others."""
    tuple_size: Measure | None = None
    """Bytes per tuple received."""
    output_size: Measure | None = None
    """Bytes per tuple put out; None: what its consumers receive."""
    state_size: Measure | None = None
    """Bytes of state, all shards together."""
    stores: Measure | None = None
    """State stores of each shard; None: one. Each has changelogs of its own."""
    state_growth: Measure | None = None
    """Bytes per second by which the state grows."""
    state_change: Measure | None = None
    """Bytes of state written per second of input; None: every tuple rewrites its own size."""
    skew: Measure | None = None
    """Load of the busiest shard relative to the mean, at least 1."""
    one_epoch_per_batch: bool = False
    """Its result depends on the batching, so a batch never spans several epochs."""
    thread: bool = False
    """It runs as a thread of its node, without a Spark query: a source made by a function, or of
    files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineStatistics:
    """What the machine, its disks and Spark on it take."""

    cores: int
    """Cores that all nodes together may use."""
    slice_write: Affine
    slice_read: Affine
    state_write: Affine
    """Writing a changelog (per batch) or a snapshot."""
    state_read: Affine
    """Loading a snapshot; a changelog costs as much per byte."""
    log_read: Measure
    """Restoring one changelog more of one store, whatever its size."""
    detection: Measure
    """From a failure until it is known."""
    restore_warm: Measure
    """From then until a unit works as usual on a warm spare: until it runs, and what its first
    batch takes longer than others; its state not counted."""
    first_batch: Measure
    """The second part of that: planning and compiling, which goes on while input is waited for."""
    restore_cold: Measure
    """The same when a session has to be started first."""
    restore_thread: Measure
    """From then until a unit that is a thread has published a slice, on a node that runs."""
    takeover_cpu: Measure
    """Cores that one query keeps busy while it is restored on a warm spare."""
    batch_floor: Measure
    """Duration of a batch with nothing in it."""
    batch_cpu: Measure
    """CPU time of a batch with nothing in it."""
    refill: Measure
    """How long a spare that was used is missing until another one is warm."""
    spare_cost: Measure
    """What a warm spare costs, in cores: its memory at the price of the cores it comes with."""


def _reference() -> MachineStatistics:
    return REFERENCE_MACHINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """One pipeline on one machine."""

    pipeline: str = ""
    epoch_s: float = 1.0
    """Length of an epoch; a batch spans a whole number of them."""
    machine: MachineStatistics = field(default_factory=_reference)
    operators: Mapping[str, OperatorStatistics] = field(default_factory=dict)


def _noted(value: float, p95: float | None = None, *, how: str, samples: int = 0) -> Measure:
    return Measure(value=value, p95=p95, how=how, samples=samples)


REFERENCE_MACHINE: MachineStatistics = MachineStatistics(
    cores=2,
    slice_write=Affine(
        fixed=_noted(0.057, how="a batch with few rows against one with none", samples=6),
        per_byte=_noted(5.0e-9, how="CPU time of rows of 100 bytes", samples=12),
    ),
    slice_read=Affine(
        fixed=_noted(0.002, how="a batch with few rows against one with none", samples=6),
        per_byte=_noted(2.0e-9, how="CPU time of rows of 100 bytes", samples=12),
    ),
    state_write=Affine(
        fixed=_noted(0.046, how="empty batches, with state less without", samples=13),
        per_byte=_noted(0.0, 1.7e-8, how="Spark's commit time over changelog bytes", samples=12),
    ),
    state_read=Affine(
        fixed=_noted(0.123, how="first batches with next to no state and with none", samples=4),
        per_byte=_noted(2.3e-8, how="first batches with 20 MB of state and with none", samples=4),
    ),
    log_read=_noted(0.0011, how="first batches with 200 changelogs and with few", samples=8),
    detection=_noted(0.038, 0.059, how="kill -9 of a node until known", samples=8),
    restore_warm=_noted(0.64, 0.76, how="kill -9 of a node with a warm spare", samples=8),
    first_batch=_noted(0.39, 0.47, how="the part of a warm restore after the start", samples=8),
    restore_cold=_noted(7.7, 8.1, how="kill -9 of a node without a spare", samples=3),
    restore_thread=_noted(0.068, 0.076, how="kill -9 of a node with a source", samples=6),
    takeover_cpu=_noted(0.59, how="CPU time of a warm restore over its duration", samples=8),
    batch_floor=_noted(0.059, 0.073, how="empty batches", samples=13),
    batch_cpu=_noted(0.053, 0.057, how="CPU time of empty batches", samples=13),
    refill=_noted(21.5, 24.8, how="kill -9 until another spare was warm", samples=8),
    spare_cost=_noted(0.048, how="0.6 GB resident at 12.6 GB a core"),
)
"""By `holdfast profile --thorough` on 2 cores with PySpark 4.3.0 and Java 17, before all other work
of the machine by its priority. Plans without a profile of their own rest on it."""


# -- files ---------------------------------------------------------------------------------------

_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
_Number = Annotated[float, Field(ge=0)]


@with_config(_STRICT)
class MeasureEntry(TypedDict):
    """A number with its certainty."""

    value: _Number
    p95: NotRequired[_Number]
    error: NotRequired[_Number]
    samples: NotRequired[Annotated[int, Field(ge=0)]]
    how: NotRequired[str]
    values: NotRequired[list[_Number]]


@with_config(_STRICT)
class AffineEntry(TypedDict):
    """Seconds per access and per byte."""

    fixed: MeasureEntry
    per_byte: MeasureEntry


@with_config(_STRICT)
class StatisticsEntry(TypedDict, total=False):
    """What was measured of one operator."""

    input_rate: MeasureEntry
    output_rate: MeasureEntry
    selectivity: MeasureEntry
    cost: MeasureEntry
    batch_fixed: MeasureEntry
    first_fixed: MeasureEntry
    build: MeasureEntry
    takeover_cpu: MeasureEntry
    tuple_size: MeasureEntry
    output_size: MeasureEntry
    state_size: MeasureEntry
    stores: MeasureEntry
    state_growth: MeasureEntry
    state_change: MeasureEntry
    skew: MeasureEntry
    one_epoch_per_batch: bool
    thread: bool


@with_config(_STRICT)
class MachineEntry(TypedDict, total=False):
    """What was measured of the machine; what is left out is taken from the reference machine."""

    cores: Annotated[int, Field(ge=1)]
    slice_write: AffineEntry
    slice_read: AffineEntry
    state_write: AffineEntry
    state_read: AffineEntry
    log_read: MeasureEntry
    detection: MeasureEntry
    restore_warm: MeasureEntry
    first_batch: MeasureEntry
    restore_cold: MeasureEntry
    restore_thread: MeasureEntry
    takeover_cpu: MeasureEntry
    batch_floor: MeasureEntry
    batch_cpu: MeasureEntry
    refill: MeasureEntry
    spare_cost: MeasureEntry


@with_config(_STRICT)
class StatisticsFile(TypedDict):
    """A statistics file."""

    format: str
    pipeline: NotRequired[str]
    epoch_s: NotRequired[Annotated[float, Field(gt=0)]]
    machine: NotRequired[MachineEntry]
    operators: NotRequired[dict[str, StatisticsEntry]]


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[StatisticsFile]:
    return TypeAdapter(StatisticsFile)


def statistics_schema() -> dict[str, Any]:
    """The JSON Schema of statistics files."""
    schema = _adapter().json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def load_statistics(path: str | Path) -> Statistics:
    """Read a statistics file, or say in one line why not."""
    origin = str(path)
    return parse_statistics(decode(read_input(path), origin), origin=origin)


def parse_statistics(text: str, *, origin: str) -> Statistics:
    """Read statistics; `origin` is what error messages call the text."""
    data = parse_json(text, origin=origin, hint="`holdfast profile` writes statistics files")
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise BadInputError(
            "is not a statistics file",
            where=origin,
            hint=f'`holdfast profile` writes one; it begins with "format": "{FORMAT}"',
        )
    try:
        checked = _adapter().validate_python(data)
    except ValidationError as error:
        raise refusal(error, origin, unknown="remove it, or profile again") from None
    return _build(checked, origin)


def dump_statistics(statistics: Statistics) -> str:
    """Write statistics so that reading them back gives an equal value."""
    return json.dumps({"format": FORMAT, **_plain(statistics)}, indent=1) + "\n"


def _build(data: StatisticsFile, origin: str) -> Statistics:
    machine = {
        name: _value(entry, f"{origin}: machine.{name}")
        for name, entry in data.get("machine", {}).items()
    }
    reference = {f.name: getattr(REFERENCE_MACHINE, f.name) for f in fields(MachineStatistics)}
    operators = {
        operator: OperatorStatistics(
            **{
                name: _value(entry, f"{origin}: operators.{operator}.{name}")
                for name, entry in entries.items()
            }
        )
        for operator, entries in data.get("operators", {}).items()
    }
    for operator, found in operators.items():
        if found.skew is not None and found.skew.value < 1:
            raise BadInputError(
                f"is {found.skew.value:g}",
                where=f"{origin}: operators.{operator}.skew",
                hint="the busiest shard has at least the mean load: write 1 or more",
            )
    return Statistics(
        pipeline=data.get("pipeline", ""),
        epoch_s=data.get("epoch_s", 1.0),
        machine=MachineStatistics(**{**reference, **machine}),
        operators=operators,
    )


def _value(entry: Any, where: str) -> Any:
    """The frozen value of a checked entry."""
    if not isinstance(entry, Mapping):
        return entry
    if "per_byte" in entry:
        return Affine(
            fixed=_value(entry["fixed"], f"{where}.fixed"),
            per_byte=_value(entry["per_byte"], f"{where}.per_byte"),
        )
    measure = Measure(**{**entry, "values": tuple(entry.get("values", ()))})
    if measure.p95 is not None and measure.p95 < measure.value:
        raise BadInputError(
            f"the 95th percentile {measure.p95:g} is below the median {measure.value:g}",
            where=where,
            hint="swap them, or leave p95 out",
        )
    return measure


def _says(item: Any) -> bool:
    return item is not None and item is not False


def _plain(value: Any) -> Any:
    """Plain values, with what says nothing (None, no error, no samples) left out."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Measure):
        entry: dict[str, Any] = {"value": value.value}
        if value.p95 is not None:
            entry["p95"] = value.p95
        if value.error:
            entry["error"] = value.error
        if value.values:
            entry["values"] = list(value.values)
        return {**entry, "samples": value.samples, "how": value.how}
    if hasattr(value, "__dataclass_fields__"):
        found = {f.name: getattr(value, f.name) for f in fields(value)}
        return {name: _plain(item) for name, item in found.items() if _says(item)}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be written as a statistic")
    return value
