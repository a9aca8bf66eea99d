"""The word count that tests plan."""

from holdfast.topology.graph import Edge, Operator, Topology

WORDS = Topology(
    name="words",
    operators=(Operator(name="lines"), Operator(name="count")),
    edges=(Edge(source="lines", target="count"),),
    rates={"lines": 1000.0},
)
