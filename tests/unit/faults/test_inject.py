"""The injector: what it calls, when, and that it ends what it began."""

import resource
import subprocess
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.unit.verify.rundirs import write_run

from holdfast.clock import ManualClock
from holdfast.deployment import Deployment, Segment
from holdfast.errors import BadInputError, HoldfastError
from holdfast.faults.inject import PATIENCE_S, Injector
from holdfast.faults.schedule import Fault, Schedule
from holdfast.health.policy import Policy
from holdfast.pipeline import Console, Files, Pipeline
from holdfast.rundir.spec import RunSpec, write_spec
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import begin
from holdfast.runtime.rescale import shape_of

pytestmark = pytest.mark.unit


class FakeRun:
    """Writes down what is done to it."""

    def __init__(self, run_dir, nodes=("n0", "n1")):
        self.run_dir = run_dir
        self.nodes = nodes
        self.calls = []
        self.down = False

    def kill_node(self, name):
        self.calls.append(("kill", name))

    def kill_nodes(self, names):
        self.calls.append(("together", *names))

    def stop_node(self, name):
        self.calls.append(("stop", name))

    def cont_node(self, name):
        self.calls.append(("cont", name))

    def kill_domain(self, domain):
        self.calls.append(("domain", domain))
        return list(self.nodes)

    def kill_coordinator(self):
        self.calls.append(("coordinator",))
        return 4711

    def stop_coordinator(self):
        self.calls.append(("hang",))
        return 4712

    def cont_coordinator(self, pid):
        self.calls.append(("wake", pid))

    def status(self):
        if self.down:
            raise HoldfastError("no coordinator")
        nodes = [
            SimpleNamespace(node=name, domain=f"d{i}", units=("u",))
            for i, name in enumerate(self.nodes)
        ]
        spare = SimpleNamespace(node="s0", domain="d0", units=())
        return SimpleNamespace(nodes=(*nodes, spare))


def play(run, faults, seconds, **options):
    clock = ManualClock()
    injector = Injector(run, Schedule(faults=tuple(faults), seed=3), clock, **options)
    for _ in range(int(seconds * 10)):
        injector.step()
        clock.advance(0.1)
    return injector


def test_faults_happen_in_time_and_suspensions_end(tmp_path):
    """SIGSTOP is followed by SIGCONT on the same node."""
    run = FakeRun(tmp_path)
    faults = [
        Fault(at_s=1, kind="suspend", duration_s=2),
        Fault(at_s=2, kind="kill", target="n1"),
        Fault(at_s=4, kind="coordinator"),
        Fault(at_s=5, kind="domain", target="d1"),
    ]
    injector = play(run, faults, 6)
    assert [call[0] for call in run.calls] == ["stop", "kill", "cont", "coordinator", "domain"]
    assert run.calls[0][1] == run.calls[2][1]
    assert run.calls[1] == ("kill", "n1")
    assert [item.done for item in injector.history][1:3] == ["n1", "process 4711"]
    assert not injector.step()


def test_only_a_path_that_there_is_can_be_sabotaged(tmp_path):
    """Of another one nothing would come, and it would count as injected."""
    run = FakeRun(tmp_path)
    paths = [SimpleNamespace(path="model"), SimpleNamespace(path="rules")]
    split = SimpleNamespace(split="score", active="rules", paths=paths)
    run.status = lambda: SimpleNamespace(nodes=(), splits=(split,))
    faults = [
        Fault(at_s=1, kind="thr", target="score:modle", duration_s=1),
        Fault(at_s=1, kind="thr", target="scores:model", duration_s=1),
        Fault(at_s=1, kind="thr", target="score:model", duration_s=1),
        Fault(at_s=1, kind="thr", target="score", duration_s=1),
        Fault(at_s=1, kind="thr", duration_s=1),
    ]
    injector = play(run, faults, 60)
    done = {item.fault.target: item.done for item in injector.history}
    assert done == {
        "score:modle": "",
        "scores:model": "",
        "score:model": "score:model",
        "score": "score:rules",
        "": "score:rules",
    }


def test_a_coordinator_that_hangs_is_woken(tmp_path):
    """The same process, also when the schedule is interrupted before."""
    run = FakeRun(tmp_path)
    play(run, [Fault(at_s=1, kind="coordinator-hang", duration_s=2)], 5)
    assert run.calls == [("hang",), ("wake", 4712)]
    interrupted = FakeRun(tmp_path)
    play(interrupted, [Fault(at_s=1, kind="coordinator-hang", duration_s=2)], 2).close()
    assert interrupted.calls == run.calls


def test_a_target_is_drawn_among_nodes_that_run_units(tmp_path):
    """A spare is not worth killing; the same seed hits the same node."""
    faults = [Fault(at_s=n, kind="kill") for n in range(8)]
    one, two = FakeRun(tmp_path), FakeRun(tmp_path)
    play(one, faults, 9)
    play(two, faults, 9)
    assert one.calls == two.calls
    assert {name for _, name in one.calls} == {"n0", "n1"}


def test_a_correlated_failure_takes_several_nodes_at_once(tmp_path):
    """Those named, or two that run units; the same seed takes the same."""
    run, again = (FakeRun(tmp_path, nodes=("n0", "n1", "n2", "n3")) for _ in range(2))
    named = Fault(at_s=0, kind="correlated", target="n3,n0")
    injector = play(run, [named, Fault(at_s=1, kind="correlated")], 2)
    assert run.calls[0] == ("together", "n3", "n0")
    assert [len(set(call)) for call in run.calls[1:]] == [3]
    assert injector.history[0].done == "n3, n0"
    play(again, [named, Fault(at_s=1, kind="correlated")], 2)
    assert again.calls == run.calls


def test_a_fault_without_a_target_waits_and_is_then_skipped(tmp_path):
    """While nobody can be asked, nothing is hit; after a while the fault is given up."""
    run = FakeRun(tmp_path)
    run.down = True
    injector = play(run, [Fault(at_s=0, kind="kill")], PATIENCE_S + 1)
    assert run.calls == []
    assert injector.history[0].note == "no target was there"


def test_closing_ends_what_lasts(tmp_path):
    """An interrupted schedule leaves no node suspended."""
    run = FakeRun(tmp_path)
    injector = play(run, [Fault(at_s=0, kind="suspend", duration_s=100)], 1)
    injector.close()
    assert [call[0] for call in run.calls] == ["stop", "cont"]


def test_a_torn_file_is_cut_and_mended(tmp_path):
    """The newest slice file of the operator is hit, and whole again afterwards."""
    write_run(tmp_path)
    newest = tmp_path / "units" / "s.0#0" / "data" / "s" / "0000000011-g0.arrow"
    whole = newest.read_bytes()
    clock = ManualClock()
    fault = Fault(at_s=0, kind="tear", target="s", duration_s=5)
    injector = Injector(FakeRun(tmp_path), Schedule(faults=(fault,)), clock)
    injector.step()
    assert injector.history[0].done == "units/s.0#0/data/s/0000000011-g0.arrow"
    assert newest.read_bytes() == whole[: len(whole) // 2]
    clock.advance(5)
    injector.step()
    assert newest.read_bytes() == whole


@pytest.mark.parametrize("kind", ["tear-slice", "lose-slice"])
def test_a_slice_file_is_damaged_for_good(tmp_path, kind):
    """One of the newest few of the operator; nobody mends it."""
    write_run(tmp_path)
    spec = RunSpec(
        app="app.py",
        host="fake",
        deployment=Deployment(
            pipeline="p",
            epoch_s=1.0,
            fingerprints={},
            segments=(Segment(name="s", kind="source", operators=("s",)),),
        ),
        policy=Policy(workers=1),
    )
    write_spec(tmp_path, spec)
    injector = play(FakeRun(tmp_path), [Fault(at_s=0, kind=kind, target="s")], 30)
    path = tmp_path / injector.history[0].done
    assert int(path.name[:10]) >= 9
    if kind == "lose-slice":
        assert not path.exists()
    else:
        with pytest.raises(pa.ArrowInvalid):
            pa.ipc.open_stream(path.read_bytes()).read_all()


def test_a_full_disk_stops_writes_and_is_freed(tmp_path):
    """A real process meets an error when it writes, and can write again later."""
    code = (
        "import sys\n"
        "for line in sys.stdin:\n"
        "    try:\n"
        "        with open(sys.argv[1], 'a') as file:\n"
        "            file.write('x' * 10000)\n"
        "        print('written', flush=True)\n"
        "    except OSError as error:\n"
        "        print('failed', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "file")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def write():
        process.stdin.write("go\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    try:
        assert write() == "written"
        clock = ManualClock()
        fault = Fault(at_s=0, kind="disk", target="n0", duration_s=5)
        injector = Injector(
            FakeRun(tmp_path),
            Schedule(faults=(fault,)),
            clock,
            processes=lambda name: [process.pid] if name == "n0" else [],
        )
        injector.step()
        assert write() == "failed"
        clock.advance(5)
        injector.step()
        assert write() == "written"
    finally:
        process.stdin.close()
        process.wait(10)
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert (tmp_path / "file").stat().st_size >= 20000


def test_a_full_disk_is_freed_for_processes_that_were_forked_meanwhile(tmp_path):
    """One that inherited the limit while others were freed is found and freed as well."""
    sleeper = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    first, forked = (subprocess.Popen(sleeper, stdin=subprocess.PIPE) for _ in range(2))
    listings = [[first.pid], [first.pid]]
    try:
        clock = ManualClock()
        injector = Injector(
            FakeRun(tmp_path),
            Schedule(faults=(Fault(at_s=0, kind="disk", target="n0", duration_s=5),)),
            clock,
            processes=lambda _: listings.pop(0) if listings else [first.pid, forked.pid],
        )
        injector.step()
        resource.prlimit(forked.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        clock.advance(5)
        injector.step()
        limits = [resource.prlimit(one.pid, resource.RLIMIT_FSIZE)[0] for one in (first, forked)]
    finally:
        for process in (first, forked):
            process.communicate(timeout=10)
    assert limits == [resource.RLIM_INFINITY] * 2


def test_a_poison_record_is_one_more_file(tmp_path):
    """It appears at once, under a name that readers take; other sources cannot be poisoned."""
    (tmp_path / "in").mkdir()
    p = Pipeline("p")
    p.sink("out", p.source("s", Files(str(tmp_path / "in"), schema="n int")), Console())
    fault = Fault(at_s=0, kind="poison", target="s", text='{"n": "x"}')
    play(FakeRun(tmp_path), [fault], 1, pipeline=p)
    assert (tmp_path / "in" / "poison-0000.json").read_text() == '{"n": "x"}\n'
    assert len(list((tmp_path / "in").iterdir())) == 1
    with pytest.raises(BadInputError, match="does not read files"):
        play(FakeRun(tmp_path), [fault], 1)


def test_a_relative_source_is_poisoned_where_nodes_read_it(tmp_path):
    """A relative path begins at the application's file, not at the present directory."""
    (tmp_path / "in").mkdir()
    (tmp_path / "app.py").touch()
    spec = RunSpec(
        app=str(tmp_path / "app.py"),
        host="fake",
        deployment=Deployment(pipeline="p", epoch_s=1.0, segments=(), fingerprints={}),
        policy=Policy(),
    )
    write_spec(tmp_path / "run", spec)
    p = Pipeline("p")
    p.sink("out", p.source("s", Files("in", schema="n int")), Console())
    play(
        FakeRun(tmp_path / "run"),
        [Fault(at_s=0, kind="poison", target="s", text="x")],
        1,
        pipeline=p,
    )
    assert (tmp_path / "in" / "poison-0000.json").read_text() == "x\n"


def test_an_operator_is_given_other_shards(tmp_path):
    """The change is on record though no coordinator is there to be told; the seed may choose."""
    count = Segment(name="count", kind="inner", operators=("count",), max_shards=4, stateful=True)
    deployment = Deployment(pipeline="p", epoch_s=1.0, segments=(count,), fingerprints={})
    spec = RunSpec(app="", host="fake", deployment=deployment, policy=Policy())
    write_spec(tmp_path, spec)
    log = SliceLog(tmp_path)
    begin(log, deployment)
    faults = (
        Fault(at_s=0.0, kind="scale", target="count", text="4"),
        Fault(at_s=1.0, kind="scale"),
    )
    clock = ManualClock()
    injector = Injector(FakeRun(tmp_path), Schedule(faults=faults, seed=1), clock)
    injector.step()
    assert len(shape_of(log, count)) == 4
    clock.advance(1.0)
    injector.step()
    drawn = int(injector.history[1].done.removeprefix("count="))
    assert len(shape_of(log, count)) == drawn


def test_an_operator_without_max_shards_is_scaled_if_it_is_named(tmp_path):
    """It goes through Spark's repartitioning; the seed never chooses it."""
    count = Segment(name="count", kind="inner", operators=("count",), stateful=True, key=("word",))
    deployment = Deployment(pipeline="p", epoch_s=1.0, segments=(count,), fingerprints={})
    write_spec(tmp_path, RunSpec(app="", host="fake", deployment=deployment, policy=Policy()))
    log = SliceLog(tmp_path)
    begin(log, deployment)
    faults = (Fault(at_s=0.0, kind="scale", target="count", text="3"),)
    Injector(FakeRun(tmp_path), Schedule(faults=faults), ManualClock()).step()
    assert [child.of for child in log.carriers("count")] == [4, 4, 4]


def test_a_run_in_which_nothing_scales_is_not_scaled(tmp_path):
    """A schedule that cannot be carried out is a mistake, not a fault."""
    deployment = Deployment(pipeline="p", epoch_s=1.0, segments=(), fingerprints={})
    write_spec(tmp_path, RunSpec(app="", host="fake", deployment=deployment, policy=Policy()))
    schedule = Schedule(faults=(Fault(at_s=0.0, kind="scale"),))
    with pytest.raises(BadInputError, match="max_shards"):
        Injector(FakeRun(tmp_path), schedule, ManualClock()).step()


def test_a_node_is_found_by_the_replica_it_runs(tmp_path):
    """The one that leads, its follower, both at once; nothing is hit while nobody has the part."""
    segment = Segment(name="count", kind="inner", operators=("split", "count"), followers=(0,))
    plan = Deployment(pipeline="p", epoch_s=1.0, segments=(segment,), fingerprints={})
    write_spec(tmp_path, RunSpec(app="app.py", host="fake", deployment=plan, policy=Policy()))
    run = FakeRun(tmp_path)
    units = [
        SimpleNamespace(unit="count.0#0", node="n0", leads=False),
        SimpleNamespace(unit="count.0#0~1", node="n1", leads=True),
    ]
    run.status = lambda: SimpleNamespace(units=units)
    targets = ["leader:split", "follower:count#0", "leader:count,follower:count", "leader:count#1"]
    kinds = ["kill", "kill", "correlated", "kill"]
    faults = [
        Fault(at_s=n, kind=kind, target=target)
        for n, (kind, target) in enumerate(zip(kinds, targets, strict=True))
    ]
    injector = play(run, faults, 4 + PATIENCE_S)
    assert run.calls == [("kill", "n1"), ("kill", "n0"), ("together", "n1", "n0")]
    assert [item.done for item in injector.history] == ["n1", "n0", "n1, n0", ""]
