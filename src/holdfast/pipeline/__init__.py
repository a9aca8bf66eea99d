"""Pipelines: what their authors write, and how they are cut into segments. Free of Spark."""

from holdfast.pipeline.api import EventTime, Expected, Pipeline, Stream
from holdfast.pipeline.deploy import deploy
from holdfast.pipeline.load import load_pipeline
from holdfast.pipeline.operators import PipelineOperator
from holdfast.pipeline.sinks import Console, ForeachBatch, Parquet, Sink, Sqlite
from holdfast.pipeline.sources import Files, Generator, Rate, Source, SparkSource

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
    "Stream",
    "deploy",
    "load_pipeline",
]
