"""Whether two outcomes of one batch differ in nothing but how floating-point numbers were rounded.

Problem: a sum of floats depends on the order of its terms in the last bits. Every run of a batch
reads the same rows in the same order, but Spark may still add them up in another one: when memory
is short, an aggregation sorts and merges partial sums, and between machines a shuffle takes rows as
they arrive. The digests of such outcomes differ, though no row does. So before a unit is called
nondeterministic, its rows are held against the published ones, floats with a tolerance, wherever
they stand: in columns, structs, lists or maps. Only what differs comes here, so the cost (two sorts
of one slice, and a look at every nested value) does not matter.

Rows are paired by all that is not a float, so rows that share all of this and are almost equal in
the rest may be paired wrongly; such outcomes count as different.
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
    if mine.schema != theirs.schema or mine.num_rows != theirs.num_rows:
        return False
    tolerance = [_tolerance(field.type) for field in mine.schema]
    if not any(tolerance):
        return False
    here, there = _sorted(mine), _sorted(theirs)
    return bool(here.exact.equals(there.exact)) and all(
        _close(left, right, tolerance[index])
        for (index, left), (_, right) in zip(here.floats, there.floats, strict=True)
    )


class _Rows:
    """A table taken apart: what must be equal, and floats by the column that they come from."""

    def __init__(self, table: Any) -> None:
        exact: list[Any] = []
        self.floats: list[tuple[int, Any]] = []
        for index, column in enumerate(table.columns):
            if column.type in TOLERANCE:
                self.floats.append((index, column))
            elif _tolerance(column.type) or pa.types.is_nested(column.type):
                # As text, for Arrow can neither order nested values nor compare parts of them.
                found = [_taken_apart(value, column.type) for value in column.to_pylist()]
                exact.append(pa.array([repr(frame) for frame, _ in found], pa.string()))
                most = max((len(floats) for _, floats in found), default=0)
                for place in range(most):
                    part = [floats[place] if place < len(floats) else None for _, floats in found]
                    self.floats.append((index, pa.array(part, pa.float64())))
            elif pa.types.is_null(column.type):
                exact.append(pa.array([""] * len(column), pa.string()))
            else:
                exact.append(column)
        self.exact = pa.table(exact, names=[str(number) for number in range(len(exact))])

    def take(self, order: Any) -> None:
        self.exact = self.exact.take(order).combine_chunks()
        self.floats = [(index, column.take(order)) for index, column in self.floats]


def _sorted(table: Any) -> _Rows:
    """By all that is exact, then by the floats."""
    rows = _Rows(table)
    keys = [*rows.exact.columns, *(column for _, column in rows.floats)]
    names = [str(index) for index in range(len(keys))]
    order = pc.sort_indices(pa.table(keys, names=names), [(name, "ascending") for name in names])
    rows.take(order)
    return rows


def _tolerance(kind: Any) -> float:
    """The largest of the floats in a type; 0: it has none."""
    if kind in TOLERANCE:
        return TOLERANCE[kind]
    parts = [kind.field(index).type for index in range(kind.num_fields)]
    return max(map(_tolerance, parts), default=0.0)


def _taken_apart(value: Any, kind: Any) -> tuple[Any, list[float]]:
    """A value with nothing in the places of its floats, and these in order."""
    floats: list[float] = []

    def frame(item: Any, of: Any) -> Any:
        if item is None:
            return None
        if of in TOLERANCE:
            floats.append(item)
            return "float"
        if pa.types.is_struct(of):
            return [frame(item[part.name], part.type) for part in of]
        if pa.types.is_map(of):
            return [(frame(k, of.key_type), frame(v, of.item_type)) for k, v in item]
        if pa.types.is_list(of):  # Spark has no other nested types
            return [frame(part, of.value_type) for part in item]
        return item

    return frame(value, kind), floats


def _close(mine: Any, theirs: Any, tolerance: float) -> bool:
    if not pc.is_null(mine).equals(pc.is_null(theirs)):
        return False
    left, right = (
        np.asarray(pc.drop_null(column).to_numpy(zero_copy_only=False), np.float64)
        for column in (mine, theirs)
    )
    return bool(np.allclose(left, right, rtol=tolerance, atol=0.0, equal_nan=True))
