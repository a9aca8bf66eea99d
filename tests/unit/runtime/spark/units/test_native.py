"""How a native source is opened."""

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    UnsupportedOperationException,
)

from holdfast.runtime.spark.units.native import read_stream

pytestmark = pytest.mark.unit


class FakeReader:
    """Stands for `readStream` of a source with a schema of its own."""

    def __init__(self, error):
        self.error, self.told = error, {}

    @property
    def readStream(self):  # noqa: N802 - Spark's name
        return FakeReader(self.error)

    def format(self, kind):
        self.told["format"] = kind
        return self

    def options(self, **options):
        self.told["options"] = options
        return self

    def schema(self, schema):
        self.told["schema"] = schema
        return self

    def load(self):
        if "schema" in self.told and self.error is not None:
            raise self.error
        return self.told


@pytest.mark.parametrize(
    "error",
    [
        AnalysisException("no schema, please"),
        # Kafka's words in a connector built for data source version 1.
        IllegalArgumentException("Kafka source has a fixed schema and cannot be set with a custom"),
        UnsupportedOperationException("no schema, please"),
    ],
)
def test_a_source_with_its_own_schema_is_asked_without_one(error):
    """As Kafka refuses to be given one; the options are the same."""
    options = {"subscribe": "topic"}
    found = read_stream(FakeReader(error), "kafka", options, "value binary")
    assert found == {"format": "kafka", "options": options}


def test_a_source_that_takes_a_schema_is_given_it():
    """Files, for example, have none of their own."""
    found = read_stream(FakeReader(None), "json", {}, "n bigint")
    assert found["schema"] == "n bigint"
