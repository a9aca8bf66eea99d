"""Pipelines: what their authors write, and how they are cut into segments. Free of Spark."""

from holdfast.pipeline.api import EventTime, Expected, Pipeline
from holdfast.pipeline.deploy import deploy
from holdfast.pipeline.load import inspect_pipeline, load_pipeline
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.sinks import Console, ForeachBatch, Parquet, Sink, Sqlite
from holdfast.pipeline.sources import Files, Generator, Rate, Source, SparkSource
from holdfast.pipeline.stream import Stream
from holdfast.pipeline.tables import StaticTable, Table

__all__ = [
    "Console",
    "EventTime",
    "Expected",
    "Files",
    "ForeachBatch",
    "Generator",
    "Parquet",
    "Pipeline",
    "PipelineOperator",
    "Rate",
    "Sink",
    "Source",
    "SparkSource",
    "Sqlite",
    "StaticTable",
    "Stream",
    "Table",
    "deploy",
    "inspect_pipeline",
    "load_pipeline",
]
