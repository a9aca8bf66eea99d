"""Units at the ends of a pipeline: sources and exporters, which are threads and not queries.

They need little of Spark: a session where files are read or a function gets a DataFrame, and the
schema of what is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError
from holdfast.pipeline import Files, Generator, Pipeline, Rate, SparkSource
from holdfast.pipeline.sinks import check_apart
from holdfast.rundir.contents import own_places
from holdfast.runtime.spark.io.files import file_reader
from holdfast.runtime.units.exporters import ExporterUnit, make_delivery
from holdfast.runtime.units.sources import EpochRows, SourceUnit, rows_of
from holdfast.runtime.units.tentative import TentativeExporter, make_tentative
from holdfast.runtime.units.threads import ThreadUnit, UnitContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Makes the sources and exporters of one run."""

    pipeline: Pipeline
    deployment: Deployment
    root: Path
    session: Callable[[], SparkSession]
    schemas: Callable[[], Mapping[str, StructType]]
    """Both are asked for when they are needed: a node opens its session late."""

    def is_native(self, segment: Segment) -> bool:
        """Whether a source is read by a query of its own."""
        return isinstance(self.pipeline.operator(segment.operators[0]).source, SparkSource)

    def source(self, context: UnitContext) -> ThreadUnit:
        """A unit that publishes what a source gives."""
        segment = context.segment
        if len(segment.operators) != 1:
            raise BadInputError(
                "a source fused with other operators cannot be run",
                where=segment.name,
                hint="deploy with fuse_sources=False",
            )
        rows = self.rows_of(context)
        if isinstance(rows, SparkSource):
            raise TypeError("a SparkSource is read by a query of its own")
        return SourceUnit(context, rows, event_time=self.pipeline.event_time)

    def rows_of(self, context: UnitContext) -> EpochRows | SparkSource:
        """What a source unit reads."""
        operator = self.pipeline.operator(context.segment.operators[0])
        source = operator.source
        match source:
            case Rate() | Generator() | Files():
                return rows_of(
                    source, context, reader=lambda files: file_reader(files, self.session)
                )
            case SparkSource():
                return source
            case _:
                raise BadInputError(
                    f"{type(source).__name__} cannot be run yet", where=operator.name
                )

    def exporter(self, context: UnitContext) -> ThreadUnit:
        """A unit that delivers to a sink; in a fork, apart and marked."""
        segment = context.segment
        operator = self.pipeline.operator(segment.operators[0])
        boundary = self.deployment.boundary(segment.inputs[0])
        schema = to_arrow_schema(self.schemas()[boundary.operator], timezone="UTC")
        if operator.sink is None:
            raise AssertionError("a sink operator has a sink")
        sinks = [(item.name, item.sink) for item in self.pipeline.sinks if item.sink]
        check_apart(sinks, self.root, taken=own_places(self.root))
        place: dict[str, Any] = {
            "context": context,
            "boundary": boundary,
            "schema": schema,
            "make_frame": lambda rows: self.session().createDataFrame(rows),
        }
        if context.unit.fork is not None:
            return TentativeExporter(context, make_tentative(operator.sink, **place), schema)
        return ExporterUnit(context, make_delivery(operator.sink, **place), schema)
