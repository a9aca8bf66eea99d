"""Whether two outcomes of one batch differ in nothing but how floating-point numbers were rounded.

Problem: a sum of floats depends on the order of its terms in the last bits. Every run of a batch
reads the same rows in the same order, but Spark may still add them up in another one: when memory
is short, an aggregation sorts and merges partial sums, and between machines a shuffle takes rows as
they arrive. The digests of such outcomes differ, though no row does. So before a unit is called
nondeterministic, its rows are held against the published ones, floats with a tolerance. Only what
differs comes here, so the cost (two sorts of one slice) does not matter.

Rows are paired by the columns that are not floats, so rows that share all of these and are almost
equal in the others may be paired wrongly; such outcomes count as different.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TOLERANCE = {pa.float64(): 1e-9, pa.float32(): 1e-5}
"""Relative difference that counts as rounding: far above what reordering a million terms of one
sign gives, far below what anybody would report."""


def same_but_for_rounding(mine: Any, theirs: Any) -> bool:
    """Whether two tables hold the same rows in any order, floats compared with a tolerance."""
    floats = [field.name for field in mine.schema if field.type in TOLERANCE]
    if mine.schema != theirs.schema or mine.num_rows != theirs.num_rows or not floats:
        return False
    exact = [name for name in mine.schema.names if name not in floats]
    mine, theirs = _sorted(mine, exact, floats), _sorted(theirs, exact, floats)
    return mine.select(exact).equals(theirs.select(exact)) and all(
        _close(mine.column(name), theirs.column(name)) for name in floats
    )


def _sorted(table: Any, exact: list[str], floats: list[str]) -> Any:
    """By the exact columns, as text where Arrow cannot order them, then by the floats."""
    keys = []
    for name in [*exact, *floats]:
        column = table.column(name)
        if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
            column = pa.array([repr(item) for item in column.to_pylist()], pa.string())
        keys.append(column)
    names = [str(index) for index in range(len(keys))]
    order = pc.sort_indices(pa.table(keys, names=names), [(name, "ascending") for name in names])
    return table.take(order).combine_chunks()


def _close(mine: Any, theirs: Any) -> bool:
    if not pc.is_null(mine).equals(pc.is_null(theirs)):
        return False
    left, right = (
        np.asarray(pc.drop_null(column).to_numpy(), np.float64) for column in (mine, theirs)
    )
    return bool(np.allclose(left, right, rtol=TOLERANCE[mine.type], atol=0.0, equal_nan=True))
