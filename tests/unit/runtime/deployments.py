"""Small deployments for tests: a source `a`, and who reads it."""

from __future__ import annotations

from holdfast.deployment import Boundary, Deployment, Segment


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
