"""Topology files: round trips, and one clear line for everything that is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.errors import BadInputError
from holdfast.topology.codec import dump_topology, parse_topology, topology_schema
from holdfast.topology.files import MAX_BYTES, load_topology, save_topology
from holdfast.topology.graph import Edge, Operator, Query, Storage, Topology, UnitsOfMeasure

pytestmark = pytest.mark.unit

NAMES = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\x85\u2028\u2029\ufeff"),
    min_size=1,
    max_size=8,
)
NUMBER = st.floats(0, 1e9, allow_nan=False, allow_infinity=False)


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    operators = []
    for name in names:
        tasks = draw(st.integers(1, 3))
        per_task = st.tuples(*[NUMBER] * tasks)
        operators.append(
            Operator(
                name=name,
                parallelism=tasks,
                input=draw(st.sampled_from(["independent", "correlated"])),
                selectivity=draw(NUMBER | per_task),
                reprocess_time=draw(st.none() | NUMBER | per_task),
                backup=draw(st.sampled_from(["free", "required", "forbidden"])),
                failure_domain=draw(st.none() | NAMES),
                paths=draw(st.sampled_from([(), ("model", "rules"), ("a", "b", "c")])),
            )
        )
    pairs = [(i, j) for j in range(len(names)) for i in range(j)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = tuple(Edge(source=names[i], target=names[j]) for i, j in chosen)
    fed = {edge.target for edge in edges}
    free = [name for name in names if name not in fed]
    return Topology(
        name=draw(NAMES),
        operators=tuple(operators),
        edges=edges,
        rates={name: draw(NUMBER) for name in free},
        queries=draw(st.sampled_from([(), (Query(name="q", sink=names[-1], priority=2.0),)])),
        unit=UnitsOfMeasure(time=draw(st.sampled_from(["s", "min"]))),
        storage=Storage(tuple_cost=draw(NUMBER)),
    )


@given(topologies(), st.sampled_from(["yaml", "json"]))
def test_written_topologies_read_back_equal(topology, form) -> None:
    """Whatever can be modelled survives being written and read."""
    text = dump_topology(topology, form)
    assert parse_topology(text, format=form, origin="x") == topology


@pytest.mark.parametrize(
    "name", ["0E0", "1e5", "-.5", "1.", "+3", "0x1f", "~", "null", "no", "True"]
)
def test_names_like_numbers_are_written_as_names(name):
    """What a reader would take for a number, a truth value or nothing is quoted."""
    topology = Topology(name=name, operators=(Operator(name=name),))
    assert parse_topology(dump_topology(topology, "yaml"), format="yaml", origin="x") == topology


BAD = {
    "unknown field": ("operators: [{name: a, state_sise: 3}]", "did you mean 'state_size'"),
    "wrong type": (
        "operators:\n- {name: a}\n- {name: b, cost: 'x'}",
        "f.yaml:3: operators[1].cost",
    ),
    "number as text": ("operators: [{name: a, cost: '3'}]", "without quotes"),
    "text as number": ("operators: [{name: 3}]", "should be a string"),
    "cycle": (
        "operators: [{name: a}, {name: b}]\nedges: [{from: a, to: b}, {from: b, to: a}]",
        "cycle: a -> b -> a",
    ),
    "self loop": ("operators: [{name: a}]\nedges: [{from: a, to: a}]", "to itself"),
    "dangling edge": (
        "operators: [{name: alpha}]\nedges:\n- {from: alpha, to: alpho}",
        "f.yaml:3: edges[0].to: edge leads to 'alpho', which is no operator; did you mean 'alpha'?",
    ),
    "double edge": (
        "operators: [{name: a}, {name: b}]\nedges: [{from: a, to: b}, {from: a, to: b}]",
        "given twice",
    ),
    "negative": ("operators: [{name: a, cost: -1}]", "is -1; write a finite number"),
    "not a number": ("operators: [{name: a, cost: .nan}]", "is not a number"),
    "infinite": ("operators: [{name: a, cost: .inf}]", "is inf"),
    "partitioning": (
        "operators: [{name: a, parallelism: 2}, {name: b, parallelism: 3}]\n"
        "edges: [{from: a, to: b, partitioning: merge}]",
        "is impossible",
    ),
    "partitioning word": (
        "operators: [{name: a}, {name: b}]\nedges: [{from: a, to: b, partitioning: hash}]",
        "'one-to-one', 'split', 'merge' or 'full'",
    ),
    "duplicate name": ("operators:\n- name: a\n- name: a", "f.yaml:3: operators[1].name"),
    "duplicate key": ("operators: [{name: a}]\noperators: [{name: b}]", "given twice"),
    "empty topology": ("operators: []", "the topology is empty"),
    "empty file": ("", "is empty"),
    "no mapping": ("- a\n- b", "is not a topology"),
    "not yaml": ("operators: [", "is not YAML"),
    "control characters": ("operators: \x00", "is not YAML"),
    "deep": ("operators: " + "[" * 100_000, "nested too deeply"),
    "deep blocks": ("- " * 100_000, "nested too deeply"),
    "tag": ("operators: !!python/object/apply:os.system [ls]", "is not YAML"),
    "parallelism": ("operators: [{name: a, parallelism: 0}]", "parallelism"),
    "values per task": ("operators: [{name: a, cost: [1, 2]}]", "one value, or one per task"),
    "rate of nobody": ("operators: [{name: a}]\nrates: {b: 1}", "rates.b"),
    "rate of an inner operator": (
        "operators: [{name: a}, {name: b}]\nedges: [{from: a, to: b}]\nrates: {b: 1}",
        "not a source",
    ),
    "query": ("operators: [{name: a}]\nqueries: [{name: q, sink: b}]", "queries[0].sink"),
    "priorities": ("operators: [{name: a}]\nqueries: [{name: q, sink: a, priority: 0}]", "above 0"),
    "missing name": ("operators: [{parallelism: 2}]", "'name' is missing"),
    "missing operators": ("name: x", "'operators' is missing"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_get_one_clear_line(case) -> None:
    """Each fault is named with file and place, and what to write instead."""
    text, said = BAD[case]
    with pytest.raises(BadInputError) as caught:
        parse_topology(text, format="yaml", origin="f.yaml")
    assert said in str(caught.value)
    assert str(caught.value).startswith("f.yaml")
    assert "\n" not in str(caught.value)


def test_json_faults_have_lines_too(tmp_path) -> None:
    """Lines in JSON are found without a YAML parser."""
    path = tmp_path / "t.json"
    data = {"operators": [{"name": "a"}, {"name": "b", "cost": -2}]}
    path.write_text(json.dumps(data, indent=1))
    line = 1 + path.read_text().split("-2")[0].count("\n")
    with pytest.raises(BadInputError, match=rf"t\.json:{line}: operators\[1\]\.cost"):
        load_topology(path)
    path.write_text('{"operators": [}')
    with pytest.raises(BadInputError, match=r"t\.json:1: is not JSON"):
        load_topology(path)
    path.write_text('{"operators": [{"name": "a", "name": "b"}]}')
    with pytest.raises(BadInputError, match="given twice"):
        load_topology(path)


def test_unusable_paths(tmp_path) -> None:
    """Directories, missing, special, huge and binary files are refused before they are read."""
    with pytest.raises(BadInputError, match="is a directory"):
        load_topology(tmp_path)
    with pytest.raises(BadInputError, match="no such file"):
        load_topology(tmp_path / "none.yaml")
    with pytest.raises(BadInputError, match="not a regular file"):
        load_topology("/dev/zero")
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        os.truncate(file.fileno(), MAX_BYTES + 1)
    with pytest.raises(BadInputError, match="larger than 256 MB"):
        load_topology(huge)
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInputError, match="is not text"):
        load_topology(binary)


def test_yaml_reads_what_people_mean(tmp_path) -> None:
    """`1e-5` is a number, `no` a name, and the file's stem the default name."""
    path = tmp_path / "words.yaml"
    path.write_text("operators: [{name: no, cost: 1e-5}, {name: on}]")
    topology = load_topology(path)
    assert topology.name == "words"
    assert [operator.name for operator in topology.operators] == ["no", "on"]
    assert topology.operators[0].cost == 1e-5


def test_task_rates_may_stand_at_the_operator() -> None:
    """A source's task rates may be written beside its other numbers."""
    text = "operators: [{name: a, parallelism: 2, task_rates: [1, 2]}]"
    topology = parse_topology(text, format="yaml", origin="x")
    assert topology.task_rates == {"a": (1.0, 2.0)}


def test_saving_chooses_the_format_by_name(tmp_path) -> None:
    """Files ending in .json are JSON, others YAML; both load back."""
    topology = Topology(name="t", operators=(Operator(name="a"),))
    for name in ("t.json", "t.yaml"):
        save_topology(topology, tmp_path / name)
        assert load_topology(tmp_path / name) == topology
    assert (tmp_path / "t.json").read_text().startswith("{")


def test_shipped_schema_is_current() -> None:
    """The shipped JSON Schema is what the reader checks."""
    shipped = Path(holdfast.__file__).parent / "schemas" / "topology.schema.json"
    assert json.loads(shipped.read_text()) == topology_schema()


@pytest.mark.parametrize("paths", ["[model]", "[model, model]"])
def test_a_split_has_several_paths(paths) -> None:
    """Each with a name of its own."""
    text = f"operators:\n  - {{name: a, paths: {paths}}}\n"
    with pytest.raises(BadInputError, match=r"x:2: operators.*paths.*two or more"):
        parse_topology(text, format="yaml", origin="x")
