"""Alternative paths as their author writes them, and how they are deployed."""

import pytest

from holdfast.deployment import Deployment
from holdfast.errors import BadInputError
from holdfast.pipeline import Generator, Parquet, Pipeline, Rate, Table, deploy
from holdfast.pipeline.fingerprint import fingerprints
from holdfast.pipeline.graph import layout
from holdfast.pipeline.paths import paths_of, taking

pytestmark = pytest.mark.unit


class Frame:
    """Writes down what was done to it."""

    def __init__(self, *done):
        self.done = done

    def selectExpr(self, *expressions):  # noqa: N802 - Spark's name
        return Frame(*self.done, expressions)


def step(name):
    """A function that leaves its name."""
    return lambda frame: Frame(*frame.done, name)


def split(column=None, **options):
    p = Pipeline("p")
    scored = p.source("rows", Rate(5)).paths(
        "score",
        column=column,
        model=lambda s: s.map("call", step("call"), **options),
        rules=lambda s: s.map("look", step("look")).map("guess", step("guess")),
    )
    p.sink("out", scored, Parquet("out"))
    return p


def test_a_split_is_one_operator_on_its_first_path():
    """Its paths are not operators of the pipeline; another one can be taken."""
    p = split()
    assert [one.name for one in p.operators] == ["rows", "score", "out"]
    assert p.operator("score").kind == "map"
    found = paths_of(p.operator("score"))
    assert found.names == ("model", "rules")
    assert p.operator("score").function(Frame()).done == ("call",)
    other = p.replaced(taking("score", "rules"))
    assert other.operator("score").function(Frame()).done == ("look", "guess")
    assert p.operator("score").function(Frame()).done == ("call",)
    assert paths_of(p.operator("rows")) is None


def test_which_path_made_a_row_is_an_option():
    """A further column, after all others."""
    function = paths_of(split(column="path").operator("score"))
    assert function(Frame()).done == ("call", ("*", "'model' AS `path`"))
    assert function.taking("rules")(Frame()).done[-1] == ("*", "'rules' AS `path`")


def test_splits_may_be_nested():
    """Inner paths take the place of the outer one, in order, with what is before and after."""
    p = Pipeline("p")
    scored = p.source("rows", Rate(5)).paths(
        "score",
        model=lambda s: (
            s.map("a", step("a"))
            .paths(
                "inner",
                fast=lambda t: t.map("f", step("f")),
                slow=lambda t: t.map("g", step("g")).map("h", step("h")),
            )
            .map("z", step("z"))
        ),
        rules=lambda s: s.map("r", step("r")),
    )
    p.sink("out", scored, Parquet("out"))
    function = paths_of(p.operator("score"))
    assert function.names == ("model/fast", "model/slow", "rules")
    assert function.taking("model/fast")(Frame()).done == ("a", "f", "z")
    assert function.taking("model/slow")(Frame()).done == ("a", "g", "h", "z")


def test_a_split_is_a_segment_of_its_own():
    """Whatever is around it: another path begins with its input and ends with its output."""
    p = Pipeline("p")
    before = p.source("rows", Rate(5)).map("before", step("b"))
    scored = before.paths(
        "score", a=lambda s: s.map("x", step("x")), b=lambda s: s.map("y", step("y"))
    )
    p.sink("out", scored.map("after", step("a")), Parquet("out"))
    facts = layout(p)
    assert (facts.forced["before"], facts.forced["score"]) == ("path", "path")
    made = deploy(p)
    assert [one.name for one in made.segments] == ["rows", "before", "score", "after", "out"]
    assert [one.paths for one in made.segments] == [(), (), ("a", "b"), (), ()]
    assert Deployment.from_json(made.to_json()) == made
    assert made.segment("score:b") == made.segment("score")


def test_a_changed_path_is_changed_code():
    """Of the split alone; which path is taken makes no difference to what the pipeline is."""
    mine, other = fingerprints(split()), fingerprints(split(column="path"))
    assert mine["score"] != other["score"]
    assert mine["rows"] == other["rows"]


def test_a_nondeterministic_path_makes_a_nondeterministic_split():
    """Its first output is kept, as that of any such operator."""
    assert not split(deterministic=False).operator("score").deterministic
    assert split().operator("score").deterministic


def counting(**options):
    """Two paths that count, after maps of their own."""
    p = Pipeline("p")
    counted = p.source("rows", Rate(5)).paths(
        "count",
        a=lambda s: s.map("x", step("x")).aggregate(
            "sum", step("sum"), output="update", upsert_key="k"
        ),
        b=lambda s: s.aggregate("sum", step("sum"), output="update", upsert_key="k"),
        **options,
    )
    p.sink("out", counted, Parquet("out"))
    return p


def test_a_path_may_keep_state():
    """Then its split does, with the output of its paths; fresh or shared is part of what runs."""
    p = counting()
    split = p.operator("count")
    assert (split.keeps_state, split.mode, split.upsert_key) == (True, "upsert", ("k",))
    assert [path.kind for path in paths_of(split).paths] == ["aggregate", "aggregate"]
    assert [one.name for one in paths_of(split).paths[0].up_to_state().operators] == ["x"]
    (fresh,) = [one for one in deploy(p).segments if one.name == "count"]
    assert (fresh.stateful, fresh.shared_state, fresh.shards) == (True, False, 1)
    made = deploy(counting(state="shared"))
    assert made.segment("count").shared_state
    assert Deployment.from_json(made.to_json()) == made
    assert fingerprints(p)["count"] != fingerprints(counting(state="shared"))["count"]


def test_one_path_may_keep_state_and_another_none():
    """As long as nothing is shared: one with state begins with none."""
    p = Pipeline("p")
    scored = p.source("rows", Rate(5)).paths(
        "score",
        model=lambda s: s.stateful("m", step("m"), one_epoch_per_batch=True),
        rules=lambda s: s.map("r", step("r")),
    )
    p.sink("out", scored, Parquet("out"))
    assert [path.kind for path in paths_of(p.operator("score")).paths] == ["stateful", "map"]
    made = deploy(p, batch_epochs=4).segment("score")
    assert (made.stateful, made.batch_epochs) == (True, 1)


def hot(column=None):
    p = Pipeline("p")
    scored = p.source("rows", Rate(5)).paths(
        "score",
        column=column,
        standby="hot",
        model=lambda s: s.map("a", step("a")).paths(
            "inner",
            fast=lambda t: t.stateful("f", step("f")),
            slow=lambda t: t.aggregate("g", step("g")).map("h", step("h")),
        ),
        rules=lambda s: s.aggregate("r", step("r")),
    )
    p.sink("out", scored, Parquet("out"))
    return p


def test_hot_paths_are_operators_and_the_split_takes_the_rows_of_one():
    """Each by its own name, with an epoch to a batch, so that another one can go on anywhere."""
    p = hot(column="path")
    names = ["score.model.fast", "score.model.slow", "score.rules"]
    assert [one.name for one in p.operators] == ["rows", *names, "score", "out"]
    assert [p.operator(name).kind for name in names] == ["stateful", "aggregate", "aggregate"]
    assert p.operator(names[1]).function(Frame()).done == ("a", "g", "h")
    taken = p.replaced(taking("score", "rules")).operator("score")
    assert (taken.kind, taken.inputs) == ("map", ("score.rules",))
    assert taken.function(Frame()).done == (("*", "'rules' AS `path`"),)


def test_hot_paths_are_segments_with_nodes_of_their_own():
    """The split is not: it computes nothing. A unit of it reads the path that it takes."""
    made = deploy(hot(), cuts="none", batch_epochs=4)
    paths = [one for one in made.segments if one.path]
    assert [one.path for one in paths] == ["score:model/fast", "score:model/slow", "score:rules"]
    assert {(one.alone, one.batch_epochs, one.inputs) for one in paths} == {(True, 1, ("rows",))}
    split = made.segment("score")
    assert (split.alone, split.hot, len(split.inputs)) == (False, True, 3)
    seen = made.on_path("score", "model/slow")
    assert seen.segment("score").inputs == ("score.model.slow",)
    assert seen.streams_read(seen.segment("score")) == ("score.model.slow",)
    assert Deployment.from_json(made.to_json()) == made


def table_join(s):
    other = s.pipeline.table("names", Table("names.csv", "id bigint"))
    return s.join(other, on="id")


def inner_split(kind, **more):
    """A path that is a split itself, of two operators of a kind."""

    def path(stream):
        paths = {
            name: lambda inner, name=name: getattr(inner, kind)(name, step(name)) for name in "mn"
        }
        return stream.paths("i", **more, **paths)

    return path


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ({"a": lambda s: s.map("x", step("x"))}, "score: needs at least two paths"),
        ({"b": lambda s: s}, "score:b: does nothing"),
        ({"b": lambda s: None}, "score:b: must return a stream"),
        ({"b": "hot"}, "score:b: must return a stream"),
        ({"b": lambda s: s.map("x", step("x")), "standby": "warm"}, "unknown standby 'warm'"),
        (
            {"b": lambda s: s.aggregate("x", step("x")), "standby": "hot"},
            "score: hot paths keep state all or none",
        ),
        (
            {"b": lambda s: s.map("x", step("x")), "standby": "hot", "state": "shared"},
            "score: hot paths have their own state all along, and share none",
        ),
        ({"b": lambda s: s.aggregate("x", step("x"), key="k", shards=2)}, "'x' asks for shards"),
        (
            {"b": lambda s: s.aggregate("x", step("x"), key="k", max_shards=4)},
            "'x' asks for shards, and a path has one",
        ),
        (
            {"b": lambda s: s.aggregate("x", step("x")).stateful("y", step("y"))},
            "score:b: 'x' and 'y' keep state, and a path has room for one",
        ),
        (
            {
                "a": lambda s: s.map("x", step("x"), deterministic=False),
                "b": lambda s: s.aggregate("y", step("y")),
            },
            "its paths keep state, so 'x' must be deterministic",
        ),
        (
            {"b": lambda s: s.aggregate("x", step("x"), output="update", key="k")},
            "score: its path 'b' gives upserts by k, 'a' gives appends",
        ),
        (
            {"b": lambda s: s.aggregate("x", step("x")), "state": "shared"},
            "score:a: keeps no state that it could share",
        ),
        ({"b": lambda s: s.map("x", step("x")), "state": "hot"}, "unknown state 'hot'"),
        ({"b": lambda s: s.union("u", s.map("v", step("v")))}, "'u' is a union"),
        ({"b": lambda s: s.map("x", step("x"), on_error="quarantine")}, "'x' quarantines"),
        ({"b": table_join}, "joins a static table"),
        ({"b": lambda s: (s.map("w", step("w")), s.map("x", step("x")))[1]}, "nothing reads 'w'"),
        ({"b": inner_split("map", column="c")}, "only the outermost split can name the path"),
        (
            {"b": inner_split("map", standby="hot")},
            "score:b: 'i' has hot paths, which only the outermost split can",
        ),
        *(
            ({name: lambda s: s.map("x", step("x"))}, "score: " + repr(name) + " cannot be a path")
            for name in ("", "a/b", "a:b", "a b", "it's", "b+1", "x" * 65)
        ),
        (
            {"b": inner_split("aggregate", state="shared")},
            "only the outermost split can say that paths share state",
        ),
    ],
)
def test_what_cannot_be_a_path_is_refused(paths, says):
    """In one line that names split and path."""
    p = Pipeline("p")
    rows = p.source("rows", Generator(lambda epoch, seed: [], "id bigint"))
    first = {} if "a" in paths else {"a": lambda s: s.map("first", step("f"))}
    with pytest.raises(BadInputError) as caught:
        rows.paths("score", **first, **paths)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_path_must_use_the_stream_it_is_given():
    """Another one of the pipeline would be read from outside the split."""
    p = Pipeline("p")
    rows = p.source("rows", Rate(5))
    with pytest.raises(BadInputError, match="score:b: must return a stream"):
        rows.paths(
            "score",
            a=lambda s: s.map("x", step("x")),
            b=lambda s: rows.map("y", step("y")),
        )


def test_unknown_paths_and_columns_are_refused():
    """With the names there are."""
    with pytest.raises(BadInputError, match="no path 'x'; there are: model, rules"):
        paths_of(split().operator("score")).taking("x")
    with pytest.raises(BadInputError, match="cannot be a column"):
        split(column="a b")


def test_the_topology_names_the_paths():
    """So that drawings and topology files show them."""
    found = split().topology()
    assert [one.paths for one in found.operators] == [(), ("model", "rules")]
