"""A quick profile of a pipeline whose numbers are known finds them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.spark import profile_app as known

from holdfast.pipeline import load_pipeline
from holdfast.predict.recovery import RecoveryModel
from holdfast.predict.segments import SegmentPlan
from holdfast.profile import profile

pytestmark = pytest.mark.spark

APP = str(Path(known.__file__))
BYTES_BEFORE = 3 * 8
"""A time, a number and a key."""
BYTES_BEHIND = 3 * 8 + 4 + known.PAYLOAD
"""With the payload and its length; there are no validity bits where nothing is missing."""
KEPT_BYTES = (8 + 8) + (8 + 8 + known.PAYLOAD)
"""Spark's rows of key and value: bits for missing values, then 8 bytes a column, then payload."""


@pytest.fixture(scope="module")
def found():
    return profile(APP, 6.0, quick=True, say=print)


def test_rates_and_selectivities(found):
    """Rates and selectivities are within a tenth of the truth: they are counted, not timed."""
    rate = known.ROWS_PER_SECOND
    truth = {
        "rate": (rate, 1.0),
        "burn": (rate, 1.0),
        "copy": (rate, known.COPIES),
        "thin": (rate * known.COPIES, known.KEPT),
        "keep": (rate * known.COPIES * known.KEPT, 1.0),
    }
    assert list(found.operators) == list(truth)
    for name, (rows, selectivity) in truth.items():
        one = found.operators[name]
        assert one.input_rate.value == pytest.approx(rows, rel=0.1), name
        assert one.selectivity.value == pytest.approx(selectivity, rel=0.1), name
        assert one.output_rate.value == pytest.approx(rows * selectivity, rel=0.1), name


def test_tuple_sizes(found):
    """Bytes per tuple are within a tenth of what its columns hold."""
    for name in ("rate", "burn", "copy"):
        assert found.operators[name].tuple_size.value == pytest.approx(BYTES_BEFORE, rel=0.1), name
    for name in ("thin", "keep"):
        assert found.operators[name].tuple_size.value == pytest.approx(BYTES_BEHIND, rel=0.1), name
    assert found.operators["copy"].output_size.value == pytest.approx(BYTES_BEHIND, rel=0.1)


def test_state_sizes(found):
    """State is, grows by and logs as many bytes as its keys and values hold, within a tenth."""
    keep = found.operators["keep"]
    told = re.search(r"(\d+) keys", keep.state_size.how)
    assert told is not None
    assert int(told[1]) > 2 * keep.input_rate.value
    assert keep.state_size.value == pytest.approx(int(told[1]) * KEPT_BYTES, rel=0.1)
    grows = keep.input_rate.value * KEPT_BYTES
    assert keep.state_growth.value == pytest.approx(grows, rel=0.1)
    assert keep.state_change.value == pytest.approx(grows, rel=0.1)
    assert all(one.state_size is None for name, one in found.operators.items() if name != "keep")


def test_cost_per_tuple(found):
    """The calibrated operator costs what it burns, within three tenths."""
    cost = found.operators["burn"].cost
    assert cost.value == pytest.approx(known.BURN_S, rel=0.3)
    assert 0 < cost.error < known.BURN_S
    assert found.operators["thin"].cost.value < known.BURN_S / 4


def test_what_operators_add_to_batches(found):
    """State adds to every batch; takeovers were watched on a spare; sources have none."""
    source = found.operators["rate"]
    assert source.batch_fixed is source.first_fixed is None
    keep = found.operators["keep"]
    assert keep.batch_fixed.value > 0
    assert keep.batch_fixed.value > found.operators["thin"].batch_fixed.value
    for name in ("burn", "copy", "thin", "keep"):
        one = found.operators[name]
        assert one.batch_fixed.samples >= 5, name
        assert one.first_fixed.how.startswith("takeover on a spare"), name
        assert one.build.samples == one.takeover_cpu.samples == 1, name


def test_every_number_says_how_it_was_come_by(found):
    """Nothing measured is without samples and words, and a plan can be predicted with it."""
    for one in found.operators.values():
        for name in ("input_rate", "selectivity", "tuple_size", "cost"):
            measure = getattr(one, name)
            assert measure.samples > 0
            assert measure.how != "assumed"
    topology = load_pipeline(APP).topology()
    model = RecoveryModel(topology, found)
    plans = [
        SegmentPlan(operators=(0,), interval_s=1.0, snapshot_batches=10),
        SegmentPlan(operators=(1, 2, 3, 4), interval_s=1.0, snapshot_batches=10),
    ]
    promised = model.predict(plans, 1, uncut_cpu=1.0)
    assert promised.pace.cpu > known.ROWS_PER_SECOND * known.BURN_S


def test_an_interrupted_profile_leaves_nothing_behind(tmp_path):
    """Ctrl-C in the middle ends every process that the profile has started."""
    code = "import sys; from holdfast.cli import main; sys.argv[0] = 'holdfast'; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "profile", APP, "--quick", "--for", "60s"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "units" in line:
            break
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) > 1
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.stderr.read().splitlines()[-1] == "holdfast: interrupted"
    process.stderr.close()
    end = time.monotonic() + 20
    while any(child.is_running() for child in children) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(child.is_running() for child in children)
    assert not list(tmp_path.iterdir())


def test_a_broken_operator_is_named_in_one_line(tmp_path):
    """What is wrong with the pipeline is told as `run` would tell it."""
    app = tmp_path / "broken.py"
    app.write_text(
        "from holdfast.pipeline import Parquet, Pipeline, Rate\n"
        "p = Pipeline('broken')\n"
        "rows = p.source('rows', Rate(rows_per_second=5)).map('pick', lambda f: f.select('nope'))\n"
        "p.sink('out', rows, Parquet('out'))\n"
    )
    code = "import sys; from holdfast.cli import main; sys.argv[0] = 'holdfast'; main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "profile", str(app), "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.splitlines()[-1].startswith("holdfast: pick: ")
