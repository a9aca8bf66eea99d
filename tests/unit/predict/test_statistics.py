"""Statistics files: what is written is read back, and mistakes get one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BadInputError
from holdfast.predict.statistics import (
    FORMAT,
    REFERENCE_MACHINE,
    Affine,
    MachineStatistics,
    Measure,
    OperatorStatistics,
    Statistics,
    dump_statistics,
    load_statistics,
    parse_statistics,
    statistics_schema,
)

pytestmark = pytest.mark.unit

numbers = st.floats(0, 1e12, allow_nan=False)


@st.composite
def measures(draw: st.DrawFn) -> Measure:
    value = draw(numbers)
    return Measure(
        value=value,
        p95=draw(st.none() | st.floats(value, 2e12)),
        error=draw(numbers),
        samples=draw(st.integers(0, 10**6)),
        how=draw(st.text(max_size=20)),
    )


affines = st.builds(Affine, fixed=measures(), per_byte=measures())
machines = st.builds(
    MachineStatistics,
    cores=st.integers(1, 512),
    **dict.fromkeys(("slice_write", "slice_read", "state_write", "state_read"), affines),
    **{
        name: measures()
        for name in (
            "detection",
            "restore_warm",
            "restore_cold",
            "restore_thread",
            "takeover_cpu",
            "log_read",
            "first_batch",
            "batch_floor",
            "batch_cpu",
            "refill",
            "spare_cost",
        )
    },
)
operators = st.builds(
    OperatorStatistics,
    input_rate=st.none() | measures(),
    cost=st.none() | measures(),
    state_size=st.none() | measures(),
    skew=st.none() | st.builds(Measure, value=st.floats(1, 100)),
    one_epoch_per_batch=st.booleans(),
)


@given(
    st.builds(
        Statistics,
        pipeline=st.text(max_size=10),
        epoch_s=st.floats(0.01, 100),
        machine=machines,
        operators=st.dictionaries(st.text(min_size=1, max_size=8), operators, max_size=3),
    )
)
def test_reading_gives_back_what_was_written(statistics: Statistics) -> None:
    """Every number survives a round trip with its certainty and its origin."""
    assert parse_statistics(dump_statistics(statistics), origin="x") == statistics


def test_what_is_left_out_is_the_reference_machine() -> None:
    """A file may measure one thing only."""
    text = json.dumps({"format": FORMAT, "machine": {"detection": {"value": 0.7, "p95": 0.9}}})
    machine = parse_statistics(text, origin="x").machine
    assert machine.detection == Measure(value=0.7, p95=0.9)
    assert machine.restore_warm == REFERENCE_MACHINE.restore_warm


def test_high_is_the_95th_percentile_or_follows_from_the_error() -> None:
    """Durations give their own percentile; means are raised by their standard error."""
    assert Measure(value=2.0, p95=3.0, error=9.0).high == 3.0
    assert Measure(value=2.0, error=0.1).high == pytest.approx(2.1644854)


def entry(**parts: object) -> str:
    return json.dumps({"format": FORMAT, **parts})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "s.json:1: is not JSON"),
        ("[]", "is not a statistics file"),
        ('{"format": "other"}', "is not a statistics file"),
        (entry(machin={}), "s.json: machin: unknown field"),
        (entry(machine={"cores": 0}), "machine.cores: should be greater than or equal to 1"),
        (entry(machine={"detection": {}}), "machine.detection: the field 'value' is missing"),
        (entry(machine={"detection": {"value": -1}}), "machine.detection.value: should be greater"),
        (entry(machine={"detection": {"value": "1"}}), "machine.detection.value: should be"),
        (
            entry(machine={"detection": {"value": 2, "p95": 1}}),
            "machine.detection: the 95th percentile 1 is below the median 2",
        ),
        (entry(epoch_s=0), "epoch_s: should be greater than 0"),
        (entry(operators={"a": {"skew": {"value": 0.5}}}), "operators.a.skew: is 0.5"),
        (f'{{"format": "{FORMAT}", "epoch_s": NaN}}', "epoch_s: should be"),
    ],
)
def test_mistakes_get_one_line(text: str, said: str) -> None:
    """The line names the file and the field."""
    with pytest.raises(BadInputError) as caught:
        parse_statistics(text, origin="s.json")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_are_read_from_disk(tmp_path: Path) -> None:
    """A file on disk is read, and a missing one is named."""
    path = tmp_path / "s.json"
    path.write_text(dump_statistics(Statistics(pipeline="p")))
    assert load_statistics(path).pipeline == "p"
    with pytest.raises(BadInputError, match=r"gone\.json: there is no such file"):
        load_statistics(tmp_path / "gone.json")


def test_there_is_a_schema() -> None:
    """Editors can check a statistics file."""
    assert "machine" in statistics_schema()["properties"]
