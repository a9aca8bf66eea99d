"""Names of what a run and its processes keep; units and the slice log are in `layout`.

RUN/run.json           what runs: application, host, deployment, policy
RUN/plan.json          the plan that runs, if it runs by one
RUN/learned.json       latest samples of batches and recoveries, which refine the plan's numbers
RUN/promise.json       whether what the plan promises holds for what runs now, and why not
RUN/coordinator.json   where the coordinator that leads listens (0600)
RUN/coordinator/       terms/, journal.TERM, and cN.out: what each coordinator process writes
RUN/nodes/NAME.log     what a node did, a line per event, with unit=... where it concerns one
RUN/nodes/NAME.out     standard output and error of a node and its children; NAME.out.1: older
RUN/scratch/NAME/      temporary files of a node and what a spare rehearses with; gone with the node
RUN/starting           held by whoever starts the run; gone once it runs
RUN/processes.jsonl    processes started: pid, start time, name; those that ended may be forgotten
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.rundir.layout import ORIGIN, SCHEMAS
from holdfast.storage import open_storage

SPEC = "run.json"
PLAN = "plan.json"
LEARNED = "learned.json"
PROMISE = "promise.json"
ENDPOINT = "coordinator.json"
STARTING = "starting"
_JOURNAL = re.compile(r"journal(?:\.(\d+))?")
_TEMPORARY = re.compile(r".+\.\d+\.tmp")


def spec_path(run_dir: Path) -> Path:
    return run_dir / SPEC


def is_run(run_dir: Path) -> bool:
    """Whether something runs, or has run, in a directory."""
    return open_storage(run_dir).exists(SPEC)


def endpoint_path(run_dir: Path) -> Path:
    return run_dir / ENDPOINT


def journal_path(run_dir: Path, term: int) -> Path:
    """The journal of a term; -1: of a run from before terms."""
    return run_dir / "coordinator" / ("journal" if term < 0 else f"journal.{term}")


def journals(run_dir: Path) -> dict[int, Path]:
    """Terms that have a journal, with its file."""
    folder = run_dir / "coordinator"
    found = [_JOURNAL.fullmatch(path.name) for path in folder.glob("journal*")]
    terms = [int(match[1]) if match[1] else -1 for match in found if match]
    return {term: journal_path(run_dir, term) for term in sorted(terms)}


def coordinator_output_path(run_dir: Path, name: str) -> Path:
    return run_dir / "coordinator" / f"{name}.out"


def nodes_folder(run_dir: Path) -> Path:
    """Logs and output of all nodes."""
    return run_dir / "nodes"


def node_log_path(run_dir: Path, node: str) -> Path:
    return nodes_folder(run_dir) / f"{node}.log"


def node_output_path(run_dir: Path, node: str) -> Path:
    return nodes_folder(run_dir) / f"{node}.out"


def scratch_folder(run_dir: Path) -> Path:
    """Temporary files of all nodes."""
    return run_dir / "scratch"


def scratch_path(run_dir: Path, node: str) -> Path:
    return scratch_folder(run_dir) / node


def up_marker(run_dir: Path, node: str) -> Path:
    """Made by a node once it can run units: what ends before it never started."""
    return scratch_path(run_dir, node) / "up"


def warm_folder(folder: Path) -> Path:
    """Where a spare rehearses, below its scratch folder; earlier versions: below the run's."""
    return folder / "warm"


def probe_folder(folder: Path) -> Path:
    """Where a path is probed, below a node's scratch folder."""
    return folder / "probe"


def sabotage_path(run_dir: Path, split: str, path: str) -> Path:
    """Says what is wrong with a path's functions, while a fault schedule wants it to be."""
    return run_dir / "sabotage" / f"{split}:{path.replace('/', '.')}"


def processes_path(run_dir: Path) -> Path:
    return run_dir / "processes.jsonl"


def own_places(run_dir: Path) -> tuple[Path, ...]:
    """Everything in a run directory that a run keeps for itself: no place for results."""
    folders = ("streams", "units", "restarts", "checkpoints", "kept", "tables", "coordinator")
    files = (ENDPOINT, SPEC, PLAN, LEARNED, PROMISE, ORIGIN, SCHEMAS, STARTING)
    return (
        *(run_dir / name for name in (*folders, *files)),
        nodes_folder(run_dir),
        scratch_folder(run_dir),
        processes_path(run_dir),
    )


def temporary_path(path: Path, writer: int) -> Path:
    """Where a file is written before it takes its place; a number per process or thread."""
    return path.with_name(f"{path.name}.{writer}.tmp")


def half_written(run_dir: Path) -> list[Path]:
    """What writers that were killed left in the run directory itself and among the journals."""
    found = [*run_dir.iterdir(), *(run_dir / "coordinator").glob("*")]
    return [path for path in found if _TEMPORARY.fullmatch(path.name)]
