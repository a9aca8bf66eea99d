"""SVG and terminal drawings: valid, complete, free of overlaps, marked as the plan says."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.draw import PlanMarks, draw_svg, draw_text, plan_marks
from holdfast.errors import BadInputError
from holdfast.plan import CheckpointedSegment, FastRecoverPlan, FtcPlan, ReplicationPlan
from holdfast.testing import (
    GENERATORS,
    chain,
    layered_dag,
    ppa_random,
    random_dag,
    sentiment,
    signalguru,
    thesis_chain,
)
from holdfast.topology.graph import Edge, Operator, Query, Topology

pytestmark = pytest.mark.unit

SVG = "{http://www.w3.org/2000/svg}"


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314  our own output


def boxes(root: ET.Element) -> dict[str, tuple[float, float, float, float]]:
    found = {}
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "op":
            box = next(r for r in group.iter(f"{SVG}rect") if r.get("class", "").startswith("box"))
            name = group.get("data-name")
            assert name not in found
            found[name] = tuple(float(box.get(k)) for k in ("x", "y", "width", "height"))
    return found


def marked(root: ET.Element, mark: str) -> set[str]:
    return {
        group.get("data-name")
        for group in root.iter(f"{SVG}g")
        if group.get("class") == "op"
        for rect in group.iter(f"{SVG}rect")
        if mark in rect.get("class", "").split()
    }


def assert_apart(rects, margin=0.0):
    ordered = sorted(rects)
    for i, (x, y, w, h) in enumerate(ordered):
        for x2, y2, _, h2 in ordered[i + 1 :]:
            if x2 >= x + w + margin:
                break
            assert y2 >= y + h + margin or y >= y2 + h2 + margin


def pills(root: ET.Element) -> list[tuple[float, float, float, float]]:
    found = []
    for group in root.iter(f"{SVG}g"):
        circle = group.find(f"{SVG}circle")
        if circle is not None and "scale" not in group.get("transform", ""):
            x, y = map(float, re.findall(r"-?[\d.]+", group.get("transform"))[:2])
            found.append((x, y, 20.0, 20.0))
    return found


FTC_PLAN = FtcPlan(
    algorithm="exact",
    feasible=True,
    backups=("filter.0", "filter.1", "merger"),
    recovery_latency={"source": 1.0, "merger": 2.5, "filter.0": 1.0, "filter.1": 3.0},
    overall=3.0,
)
SEGMENT_PLAN = FastRecoverPlan(
    algorithm="exact",
    feasible=True,
    anchors=("op1", "op3"),
    segments=(
        CheckpointedSegment(head="op1", heads=("op1",), operators=("op1", "op2"), frequency=14.43),
        CheckpointedSegment(head="op3", heads=("op3",), operators=("op3", "op4"), frequency=7.5),
    ),
    expected_recovery_time=0.012,
    checkpoint_overhead=0.4,
)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_operator_is_drawn_once(name):
    """The drawing is valid XML with one box per operator, none overlapping another or a label."""
    topology = GENERATORS[name](seed=5)
    root = parse(draw_svg(topology))
    drawn = boxes(root)
    assert set(drawn) == {operator.name for operator in topology.operators}
    assert_apart(drawn.values(), margin=5)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 25), density=st.floats(0, 0.6))
def test_boxes_and_labels_never_overlap(seed, n, density):
    """On random DAGs in both directions, boxes and edge labels keep clear of one another."""
    topology = random_dag(n, density=density, parallelism=(1, 4), links="mixed", seed=seed)
    for direction in ("right", "down"):
        root = parse(draw_svg(topology, direction=direction))
        legend = next(g for g in root.iter(f"{SVG}g") if g.get("class") == "legend")
        labels = pills(root)[: len(pills(root)) - len(pills(legend))]
        assert_apart([*boxes(root).values(), *labels])


def test_drawings_stay_on_the_canvas():
    """Every box, shifted into place, lies inside the view box."""
    root = parse(draw_svg(ppa_random(20, queries=4, joins=0.5, seed=2)))
    _, _, width, height = map(float, root.get("viewBox").split())
    group = next(
        g for g in root.findall(f"{SVG}g") if g.get("class") is None and g.get("transform")
    )
    dx, dy = map(float, re.findall(r"-?[\d.]+", group.get("transform")))
    for x, y, w, h in boxes(root).values():
        assert 0 <= x + dx <= x + dx + w <= width
        assert 0 <= y + dy <= y + dy + h <= height


def test_output_is_deterministic():
    """The same topology and plan give the same bytes; a plan changes them."""
    topology = sentiment(5, 3, 2)
    assert draw_svg(topology, FTC_PLAN) == draw_svg(sentiment(5, 3, 2), replace(FTC_PLAN))
    assert draw_svg(topology, FTC_PLAN) != draw_svg(topology)
    assert draw_text(topology, FTC_PLAN) == draw_text(sentiment(5, 3, 2), FTC_PLAN)


def test_names_are_escaped():
    """Names with markup characters come out as text."""
    bad = '<b>&"]]>'
    topology = Topology(name=bad, operators=(Operator(name=bad), Operator(name="b")))
    root = parse(draw_svg(topology))
    assert bad in boxes(root)
    assert any(t.text == bad for t in root.iter(f"{SVG}text"))


def test_backups_and_latencies_are_marked():
    """Backups get a bar and a share, latencies are printed as a span."""
    root = parse(draw_svg(sentiment(5, 3, 2), FTC_PLAN))
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert marked(root, "backup") == {"filter", "merger"}
    assert marked(root, "faint") == {"filter"}
    assert "backup 2/3" in texts
    assert "backup" in texts
    assert "recovers in 1–3 s" in texts
    assert "recovers in 2.5 s" in texts
    assert any("recovers within 3 s" in t for t in texts)


def test_anchors_and_segments_are_marked():
    """Anchors get a bar; each segment gets a hull that holds exactly its boxes."""
    root = parse(draw_svg(thesis_chain(4), SEGMENT_PLAN))
    assert marked(root, "anchor") == {"op1", "op3"}
    hulls = [g for g in root.iter(f"{SVG}g") if g.get("class", "").startswith("hull")]
    legend = 1
    assert len(hulls) == 2 + legend
    drawn = boxes(root)
    for hull, inside in zip(hulls, (("op1", "op2"), ("op3", "op4")), strict=False):
        rects = list(hull.iter(f"{SVG}rect"))
        assert len(rects) == len(inside)
        for rect, name in zip(rects, inside, strict=True):
            assert float(rect.get("x")) < drawn[name][0]
            assert float(rect.get("width")) > drawn[name][2]
        assert len(list(hull.iter(f"{SVG}path"))) == 1
    assert "14.4 checkpoints/min" in [t.text for t in root.iter(f"{SVG}text")]


def test_replicas_double_the_box():
    """Operators with replicas have a second outline and say how many of how many."""
    chosen = ("vote.0", "vote.3", "sink")
    plan = ReplicationPlan(algorithm="exact", feasible=True, replicas=chosen, fidelity=0.25)
    root = parse(draw_svg(signalguru(), plan))
    assert marked(root, "twin") == {"vote", "sink"}
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert "hot replica 2/4" in texts
    assert "hot replica" in texts
    assert any("fidelity 0.25" in (t or "") for t in texts)


def test_joins_queries_and_partitionings_are_told_apart():
    """A join says so, a query is named, and each partitioning has its own style and title."""
    operators = tuple(Operator(name=n, parallelism=p) for n, p in [("a", 2), ("b", 2), ("c", 4)])
    join = Operator(name="j", parallelism=2, input="correlated")
    topology = Topology(
        name="t",
        operators=(*operators, join, Operator(name="d", parallelism=3)),
        edges=(
            Edge(source="a", target="b", partitioning="one-to-one"),
            Edge(source="b", target="c", partitioning="split"),
            Edge(source="c", target="j", partitioning="merge"),
            Edge(source="j", target="d", partitioning="full"),
        ),
        queries=(Query(name="top", sink="d", priority=2.0),),
    )
    svg = draw_svg(topology)
    for kind in ("one-to-one", "split", "merge", "full"):
        assert f'class="edge {kind}"' in svg
        assert f"<title>{kind}</title>" in svg
    assert "2 tasks · join" in svg
    assert "query top" in svg
    assert "prefers-color-scheme:dark" in svg


def test_infeasible_plans_say_so():
    """An infeasible plan marks nothing and is captioned as infeasible."""
    plan = FtcPlan(algorithm="exact", feasible=False)
    assert "ftc exact: infeasible" in draw_svg(chain(3), plan)


def test_a_plan_for_another_topology_is_refused():
    """A name that the topology does not have is bad input."""
    with pytest.raises(BadInputError, match="nowhere"):
        plan_marks(chain(3), replace(FTC_PLAN, backups=("nowhere",)))


def test_two_hundred_operators_are_drawn():
    """A large drawing is complete, without overlaps, and without icons that would clutter it."""
    root = parse(draw_svg(layered_dag(10, 20, density=0.15, parallelism=(1, 8), links="mixed")))
    drawn = boxes(root)
    assert len(drawn) == 200
    assert_apart(drawn.values(), margin=5)


@pytest.mark.parametrize("name", GENERATORS)
def test_terminal_drawing_names_every_operator_once(name):
    """Every operator has its box in the terminal, with its tasks, unless the text says why not."""
    topology = GENERATORS[name](seed=5)
    text = draw_text(topology, width=200)
    assert max(map(len, text.splitlines())) <= 200
    for operator in topology.operators:
        times = f" ×{operator.parallelism}" if operator.parallelism > 1 else ""
        assert len(re.findall(rf"│ *{re.escape(operator.name + times)}(?: ⋈)? *│", text)) == 1


@given(seed=st.integers(0, 10**6), n=st.integers(1, 15), density=st.floats(0, 0.4))
def test_terminal_arrows_match_edges(seed, n, density):
    """There is one arrow head per edge."""
    topology = random_dag(n, density=density, seed=seed)
    text = draw_text(topology, width=1000)
    assert text.count("▼") == len(topology.edges)


def test_terminal_marks_the_plan():
    """Anchors have a heavy upper edge, backups a heavy lower one, replicas a count."""
    plan = PlanMarks(anchors={0: 1}, logged={1: 1}, replicas={2: 1})
    topology = Topology(
        name="t",
        operators=(Operator(name="op1"), Operator(name="op2"), Operator(name="op3", parallelism=2)),
        edges=(Edge(source="op1", target="op2"), Edge(source="op2", target="op3")),
    )
    assert draw_text(topology, plan).splitlines() == [
        "┏━━━━━━━━┓",
        "│  op1   │",
        "│ anchor │",
        "└────────┘",
        "     ▼",
        "┌────────┐",
        "│  op2   │",
        "│ backup │",
        "┗━━━━━━━━┛",
        "     ▼",
        "┌─────────┐",
        "│ op3 ×2  │",
        "│ hot 1/2 │",
        "└─────────┘",
    ]


def test_too_large_for_the_terminal_says_so():
    """Too many operators, or too few columns, give a listing that says why."""
    assert "31 operators are too many" in draw_text(chain(31))
    wide = layered_dag(2, 12)
    text = draw_text(wide, width=60)
    assert "columns" in text
    assert "l1n1" in text
    assert "and 4 more" in text


def test_a_split_names_its_paths() -> None:
    """In the terminal and in SVG, in their order."""
    split = Operator(name="score", paths=("model", "rules"))
    topology = Topology(
        name="t", operators=(Operator(name="a"), split), edges=(Edge(source="a", target="score"),)
    )
    assert "model | rules" in draw_text(topology)
    assert "model | rules" in draw_svg(topology)
