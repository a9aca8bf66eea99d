"""Small deployments for tests: a source `a` and who reads it, or lines whose words are counted."""

from __future__ import annotations

from holdfast.deployment import Boundary, Deployment, Segment

LINES = Segment(
    name="lines",
    kind="source",
    operators=("lines",),
    outputs=(Boundary(operator="lines", key=("word",)),),
)
COUNT = Segment(
    name="count",
    kind="inner",
    operators=("split", "count"),
    inputs=("lines@word",),
    outputs=(Boundary(operator="count"),),
    max_shards=8,
    stateful=True,
)


def a_source(*, key=(), upsert_key=(), **settings):
    """A source; rows of its log replace those with their upsert key."""
    mode = "upsert" if upsert_key else "append"
    out = Boundary(operator="a", key=key, mode=mode, upsert_key=upsert_key)
    return Segment(name="a", kind="source", operators=("a",), outputs=(out,), **settings)


def a_sink(name, reads="a", **settings):
    """An exporter of one boundary."""
    return Segment(name=name, kind="exporter", operators=(name,), inputs=(reads,), **settings)


def deployed(*segments, epoch_s=1.0):
    return Deployment(pipeline="p", epoch_s=epoch_s, fingerprints={}, segments=segments)


COUNTED = deployed(LINES, COUNT)
