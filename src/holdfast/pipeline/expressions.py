"""Operators written as SQL text instead of a function; free of Spark, which sees them as strings.

Each is a frozen value that can be called like a function of DataFrames, so fingerprints cover what
it says and nothing else needs to know of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from holdfast.errors import BadInputError

JoinKind: TypeAlias = Literal["inner", "left", "left_semi", "left_anti"]


@dataclass(frozen=True, slots=True)
class Where:
    """The rows for which a condition holds."""

    condition: str

    def __call__(self, frame: Any) -> Any:
        return frame.where(self.condition)


@dataclass(frozen=True, slots=True)
class Select:
    """The columns named, or made by SQL expressions such as `upper(word) AS word`."""

    expressions: tuple[str, ...]

    def __call__(self, frame: Any) -> Any:
        return frame.selectExpr(*self.expressions)


@dataclass(frozen=True, slots=True)
class WithColumns:
    """All columns, with some added or replaced."""

    columns: tuple[tuple[str, str], ...]
    """Names and SQL expressions."""

    def __call__(self, frame: Any) -> Any:
        new = dict(self.columns)
        kept = [f"`{name}`" for name in frame.columns if name not in new]
        return frame.selectExpr(*kept, *(f"({text}) AS `{name}`" for name, text in self.columns))


@dataclass(frozen=True, slots=True)
class OnColumns:
    """A join of a stream and a static table on columns that both have."""

    columns: tuple[str, ...]
    how: JoinKind

    def __call__(self, frame: Any, table: Any) -> Any:
        return frame.join(table, list(self.columns), self.how)


def sql_texts(expressions: tuple[Any, ...], where: str) -> tuple[str, ...]:
    """The expressions, each of them text; a Column cannot exist before there is a session."""
    if not expressions:
        raise BadInputError("names no column", where=where)
    for expression in expressions:
        if not isinstance(expression, str) or not expression.strip():
            raise BadInputError(
                f"{expression!r} is not an SQL expression",
                where=where,
                hint='write it as text, such as "upper(word) AS word", or give map a function',
            )
    return expressions


def join_kind(how: str, where: str) -> JoinKind:
    """A kind of join that a stream and a static table can have."""
    if how not in get_args(JoinKind):
        raise BadInputError(
            f"a stream and a static table cannot have a join of kind {how!r}",
            where=where,
            hint=f"write one of {', '.join(get_args(JoinKind))}",
        )
    return how  # type: ignore[return-value] # it is one of them
