"""Pipelines that nobody wrote: seeded, runnable, with an independent expectation.

Whoever tunes on examples keeps promises on examples. `random_pipeline(seed)` draws a pipeline of
sources, maps, windows, sessions, joins, deduplication, custom state, unions, several readers of one
stream and several sinks; what its sinks must hold is computed in plain Python. So any seed can be
run, broken and checked by `holdfast chaos` and `holdfast prove`:

    python -m holdfast.testing.random_pipelines 17 > app.py
    holdfast chaos app.py --kills 4
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from holdfast.pipeline import Generator, Parquet, Pipeline, Sqlite, Stream
from holdfast.testing.random_pipelines.draw import Drawing, draw, feed_rows
from holdfast.testing.random_pipelines.steps import SCHEMA, Row, Step

__all__ = ["Drawing", "app_text", "draw", "feed_rows", "random_pipeline"]


def random_pipeline(seed: int, *, operators: int = 8) -> Pipeline:
    """The pipeline of a seed, with about so many operators between its sources and sinks."""
    return build(draw(seed, operators=operators))


def app_text(seed: int, *, operators: int = 8) -> str:
    """An application file for the command line, with a drawing of what it holds."""
    drawing = draw(seed, operators=operators)
    lines = "\n".join(f"#   {line}" for line in drawing.lines())
    return (
        "from holdfast.testing.random_pipelines import random_pipeline\n\n"
        f"{lines}\n"
        f"pipeline = random_pipeline({seed}, operators={operators})\n"
    )


def build(drawing: Drawing) -> Pipeline:
    """A drawing as a pipeline."""
    pipeline = Pipeline(
        f"random-{drawing.seed}",
        event_time=("ts", f"{drawing.delay_s} seconds"),
        epoch=f"{drawing.epoch_ms}ms",
    )
    streams: dict[str, Stream] = {}
    for feed in drawing.feeds:
        rows = partial(feed_rows, feed=feed, epoch_ms=drawing.epoch_ms)
        streams[feed.name] = pipeline.source(
            feed.name, Generator(rows, SCHEMA, seed=drawing.seed), parallelism=feed.shards
        )
    for step in drawing.steps:
        streams[step.name] = _add(streams, step)
    for name in drawing.sinks:
        sink = f"out-{name}"
        upserts = streams[name].operator.mode == "upsert"
        place = Sqlite(f"out/{name}.db", "result") if upserts else Parquet(f"out/{name}")
        pipeline.sink(sink, streams[name], place)
        closes = "ts" if drawing.closes(name) else None
        pipeline.expected(sink, closes=closes)(partial(_expected, drawing=drawing, name=name))
    return pipeline


def _add(streams: Mapping[str, Stream], step: Step) -> Stream:
    first, *others = (streams[name] for name in step.inputs)
    if step.kind == "union":
        return first.union(step.name, *others)
    function = _function(step)
    match step.kind:
        case "join":
            return first.join(step.name, others[0], function, key="key", shards=step.shards)
        case "window" | "session":
            return first.aggregate(step.name, function, key="key", shards=step.shards)
        case "running":
            return first.aggregate(
                step.name, function, key="key", output="upsert", shards=step.shards
            )
        case "distinct" | "own_sessions":
            return first.stateful(step.name, function, key="key", shards=step.shards)
    return first.map(step.name, function)


def _function(step: Step) -> Callable[..., Any]:
    # Spark is needed only where the pipeline runs; planning and drawing do without it.
    from holdfast.testing.random_pipelines import spark  # noqa: PLC0415

    return partial(getattr(spark, step.kind), **dict(step.numbers))


def _expected(
    rows: Mapping[str, list[dict[str, Any]]], *, drawing: Drawing, name: str
) -> list[dict[str, Any]]:
    known = {
        feed.name: [Row(row["ts"], row["key"], row["n"]) for row in rows[feed.name]]
        for feed in drawing.feeds
    }
    return [row._asdict() for row in drawing.evaluate(known)[name]]
