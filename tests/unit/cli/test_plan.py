"""`holdfast plan`: its contract with people and with programs."""

from __future__ import annotations

import json
import os
import signal
import sys
import types
from dataclasses import dataclass
from typing import ClassVar

import pytest

from holdfast.plan import Plan
from holdfast.planners import registry
from holdfast.planners.interface import Progress, Sweep, SweepPoint

pytestmark = pytest.mark.unit

CONTRACT = {"method", "algorithm", "feasible", "optimal", "bound", "solve_ms", "objective"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoPlan(Plan):
    method: ClassVar[str] = "echo"
    asked: tuple[str, ...] = ()


class EchoPlanner:
    """Answers with what it was asked; slow until stopped when asked for `slow`."""

    method = "echo"
    algorithms: ClassVar = {"auto": "answers at once", "slow": "waits to be stopped"}
    uses = frozenset({"max_recovery", "failed", "required", "max_overhead"})

    def plan(self, topology, request, solve):
        if request.algorithm == "slow":
            os.kill(os.getpid(), signal.SIGINT)
            while not solve.should_stop():
                solve.report(Progress(message="working", objective=2.0, bound=1.0))
        return EchoPlan(
            algorithm=request.algorithm,
            feasible=request.max_recovery != 0,
            objective=request.max_recovery,
            bound=float("-inf"),
            asked=request.failed,
        )

    def sweep(self, topology, request, solve):
        points = (SweepPoint(x=1.0, y=3.0), SweepPoint(x=2.0, y=None), SweepPoint(x=3.0, y=1.0))
        marks = (SweepPoint(x=1.5, y=2.0, label="chosen"),)
        return Sweep(title="t", x_label="R", y_label="backups", points=points, marks=marks)

    def explain(self, topology, request, result):
        return ["because you asked"]


@pytest.fixture(autouse=True)
def echo(monkeypatch) -> None:
    module = types.ModuleType("echo_planner")
    module.PLANNER = EchoPlanner()
    monkeypatch.setitem(sys.modules, "echo_planner", module)
    monkeypatch.setattr(
        registry, "METHODS", {**registry.METHODS, "echo": ("echo_planner", "for tests")}
    )


@pytest.fixture
def topology_file(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        "unit: {time: min}\noperators: [{name: a, parallelism: 2}, {name: b}]\n"
        "edges: [{from: a, to: b}]"
    )
    return path


def test_json_is_exactly_one_object(holdfast, topology_file) -> None:
    """With --json stdout is one JSON object with the contract's fields and nothing else."""
    said = holdfast("plan", topology_file, "--method", "echo", "--json", "--max-recovery", "3")
    assert said.code == 0
    data = json.loads(said.out)
    assert set(data) >= CONTRACT
    assert data["format"] == "holdfast-plan-1"
    assert data["objective"] == 3.0
    assert data["bound"] is None
    assert data["solve_ms"] >= 0


def test_infeasible_is_a_result_with_exit_code_1(holdfast, topology_file) -> None:
    """An infeasible request still prints its object, and exits with 1."""
    said = holdfast("plan", topology_file, "--method", "echo", "--json", "--max-recovery", "0")
    assert said.code == 1
    assert json.loads(said.out)["feasible"] is False
    said = holdfast("plan", topology_file, "--method", "echo", "--max-recovery", "0")
    assert said.code == 1
    assert "infeasible" in said.out


def test_times_are_converted_to_the_files_unit(holdfast, topology_file) -> None:
    """30 s are half a minute to a file that counts in minutes."""
    said = holdfast("plan", topology_file, "-m", "echo", "--json", "--max-recovery", "30s")
    assert json.loads(said.out)["objective"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "failed",
    [["--failed", "a.0", "b"], ["--failed", "a.0,b"], ["--failed", "a.0", "--failed", "b"]],
)
def test_lists_may_be_written_in_any_way(holdfast, topology_file, failed) -> None:
    """--failed takes several names after one another, with commas, or again."""
    said = holdfast("plan", *failed, topology_file, "-m", "echo", "--json")
    assert json.loads(said.out)["asked"] == ["a.0", "b"]
    said = holdfast("plan", topology_file, "-m", "echo", "--json", *failed)
    assert json.loads(said.out)["asked"] == ["a.0", "b"]


def test_ctrl_c_gives_the_best_plan_so_far(holdfast, topology_file) -> None:
    """The first Ctrl-C ends the solve, not the command."""
    said = holdfast("plan", topology_file, "-m", "echo", "-a", "slow", "--json")
    assert said.code == 0
    assert json.loads(said.out)["algorithm"] == "slow"
    assert "best plan so far" in said.err


def test_reasons_and_file(holdfast, topology_file, tmp_path) -> None:
    """--explain says why, --out keeps the JSON."""
    out = tmp_path / "plan.json"
    said = holdfast("plan", topology_file, "-m", "echo", "--explain", "-o", out)
    assert "because you asked" in said.out
    assert json.loads(out.read_text())["explanation"] == ["because you asked"]


def test_sweep_prints_and_draws(holdfast, topology_file, tmp_path) -> None:
    """The trade-off curve comes as a table, as JSON and as a picture."""
    plot = tmp_path / "curve.svg"
    said = holdfast("plan", topology_file, "-m", "echo", "--sweep", "--plot", plot)
    assert "infeasible" in said.out
    assert "chosen" in said.out
    assert "<svg" in plot.read_text()
    said = holdfast("plan", topology_file, "-m", "echo", "--sweep", "--json")
    assert [point["y"] for point in json.loads(said.out)["points"]] == [3.0, None, 1.0]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-m", "magic"], "write one of ftc"),
        (["-m", "echo", "-a", "magic"], "has no algorithm 'magic'"),
        (["-m", "echo", "--replicas", "3"], "--replicas: method echo does not use it"),
        (["-m", "echo", "--max-recovery", "soon"], "--max-recovery: 'soon' is not understood"),
        (["-m", "echo", "--max-overhead", "x"], "--max-overhead"),
        (["-m", "echo", "--out", "/nowhere/x"], "cannot be written"),
        (["-m", "echo", "--sweep", "--plot", "x.doc"], "end it in .svg"),
        (["-m", "echo", "--nonsense"], "--nonsense"),
        (["-m", "ppa", "--replicas", "-1"], "a number of 0 or more"),
    ],
)
def test_bad_options_get_one_line_and_exit_code_2(holdfast, topology_file, args, said) -> None:
    """What is wrong with an option is said in one line, without a traceback."""
    got = holdfast("plan", topology_file, *args)
    assert got.code == 2
    assert said in got.err
    assert got.err.count("\n") == 1
    assert "Traceback" not in got.err


def test_a_bad_file_is_named(holdfast, tmp_path) -> None:
    """A missing file exits with 2 and its name."""
    got = holdfast("plan", tmp_path / "none.yaml")
    assert got.code == 2
    assert "none.yaml: there is no such file" in got.err
    assert not got.out


def test_algorithms_are_listed(holdfast, topology_file) -> None:
    """--algorithms tells what a method offers."""
    said = holdfast("plan", topology_file, "-m", "echo", "--algorithms")
    assert "slow" in said.out
    assert "waits to be stopped" in said.out


def test_version_and_help(holdfast) -> None:
    """--version and --help answer without doing anything."""
    assert holdfast("--version").out.startswith("holdfast ")
    assert "plan" in holdfast("--help").out
