"""What the paths of a split must have in common, without a session."""

import pytest
from pyspark.sql.types import StructType

from holdfast.errors import BadInputError
from holdfast.pipeline import Parquet, Pipeline, Rate
from holdfast.runtime.spark.frames.splits import hot_schema

pytestmark = pytest.mark.unit

ROWS = StructType().add("value", "long").add("path", "string")


def hot(column):
    p = Pipeline("p")
    scored = p.source("rows", Rate(5)).paths(
        "score",
        standby="hot",
        column=column,
        model=lambda s: s.map("call", lambda frame: frame),
        rules=lambda s: s.map("guess", lambda frame: frame),
    )
    p.sink("out", scored, Parquet("out"))
    return p.operator("score")


def test_the_column_that_names_the_path_is_a_further_one():
    """Not one that rows have already: Spark ignores case."""
    schemas = {"score.model": ROWS, "score.rules": ROWS}
    assert hot_schema(hot("made_by"), ROWS, schemas).names == ["value", "path", "made_by"]
    for column in ("path", "Value"):
        with pytest.raises(BadInputError, match=f"score: its rows have a column '{column}' alr"):
            hot_schema(hot(column), ROWS, schemas)
