"""Random pipelines for property tests: any DAG the API allows, with plain functions."""

from __future__ import annotations

from hypothesis import strategies as st

from holdfast.pipeline import Console, Pipeline, Rate


def same(frame):
    return frame


def both(left, right):
    return left


@st.composite
def pipelines(draw):
    """A valid pipeline of up to a dozen operators, all of whose streams are read."""
    p = Pipeline("random", event_time=("ts", "5s"))
    streams = [
        p.source(f"s{index}", Rate(1), parallelism=draw(st.integers(1, 3)))
        for index in range(draw(st.integers(1, 3)))
    ]
    for index in range(draw(st.integers(0, 9))):
        stream = draw(st.sampled_from(streams))
        others = [other for other in streams if other.name != stream.name]
        kind = draw(st.sampled_from(["map", "aggregate", "stateful", "join", "union"]))
        if kind in ("join", "union") and not others:
            kind = "map"
        options = {}
        if kind == "map":
            options = {"deterministic": draw(st.booleans() | st.just(value=True))}
        if kind in ("aggregate", "stateful", "join"):
            key = draw(st.sampled_from([("a",), ("b",), ("a", "b")]))
            options |= {"key": key, "shards": draw(st.integers(1, 3))}
        if kind in ("aggregate", "stateful") and draw(st.booleans()):
            options = {"key": (), "shards": 1}
        name = f"o{index}"
        match kind:
            case "union":
                made = stream.union(name, draw(st.sampled_from(others)))
            case "join":
                made = stream.join(name, draw(st.sampled_from(others)), both, **options)
            case _:
                made = getattr(stream, kind)(name, same, **options)
        streams.append(made)
    for stream in streams:
        if not p.consumers(stream.name) or draw(st.booleans()):
            p.sink(f"sink-{stream.name}", stream, Console())
    return p
