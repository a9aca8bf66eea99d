"""Mistakes in pipelines as Spark finds them, told in one line: what, where, what to write."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql.types import StructType

from holdfast.errors import BadInputError
from holdfast.pipeline import PipelineOperator

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def need_columns(
    operator: PipelineOperator,
    columns: tuple[str, ...],
    schema: StructType,
    of: str,
    *,
    what: str = "key column",
) -> None:
    """Refuse an operator that names columns which are not there."""
    for column in columns:
        if column not in schema.names:
            raise BadInputError(
                f"{what} {column!r} is not in its {of}"
                if of in ("own output", "schema")
                else f"{what} {column!r} is not in the {of}",
                where=operator.name,
                hint=_near(column, schema.names),
            )


def analysis_mistake(
    operator: PipelineOperator, error: AnalysisException, columns: list[str]
) -> BadInputError:
    """What Spark found wrong with a plan, in one line."""
    parameters = error.getMessageParameters() or {}
    if str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
        return unknown_column(
            operator, str(parameters.get("objectName", "")).replace("`", ""), columns
        )
    text = one_line(error)
    if "writeStream.start" in text:
        return BadInputError(
            f"runs an action on its input{place_of(error)}",
            where=operator.name,
            hint="only describe the result; Spark computes it batch by batch",
        )
    return BadInputError(f"{text}{place_of(error)}", where=operator.name)


def unknown_column(operator: PipelineOperator, name: str, columns: list[str]) -> BadInputError:
    """A column that is not there, with those it may be."""
    return BadInputError(f"unknown column {name!r}", where=operator.name, hint=_near(name, columns))


def _near(name: str, columns: list[str]) -> str:
    near = get_close_matches(name, columns, n=3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there are {', '.join(columns)}"


def one_line(error: BaseException) -> str:
    """What an error says first."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text.partition(" SQLSTATE:")[0].rstrip(".;")


_OURS = __file__.partition("runtime/spark/")[0]


def place_of(error: BaseException) -> str:
    """Where in the user's own code it happened, if there is such a place."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "site-packages" not in frame.filename and not frame.filename.startswith(_OURS)
    ]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep pyspark from also logging, at length, the errors that are told in another way."""
    # Not by `logging`: who asks first decides the class, and that of pyspark takes more arguments.
    loggers: list[Any] = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
