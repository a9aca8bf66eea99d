"""Streaming pipelines on Spark that survive failures, by plan and by proof."""

__version__ = "0.1.0"
