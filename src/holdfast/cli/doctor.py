"""`holdfast doctor`: is this machine fit to run pipelines? One line each, and what to do."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal

import typer

GB = 1e9
NODE_GB = 0.9
"""Resident memory of a node with a heap of 512 MB, its Python workers included."""
ROOM_GB = 2.0
"""Below this a run of some hours may fill the disk."""
EXTRAS = {
    "plan": ("numpy", "scipy", "highspy"),
    "spark": ("pyspark", "pyarrow", "pandas", "psutil"),
    "plot": ("matplotlib",),
    "web": ("fastapi", "uvicorn"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at."""

    what: str
    state: Literal["ok", "note", "problem"]
    """A note costs comfort or speed; a problem keeps pipelines from running."""
    found: str
    todo: str = ""


def doctor(
    folder: Annotated[
        Path, typer.Argument(help="Where runs are to be kept.", file_okay=False)
    ] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at Python, Java, memory, disk, ports and the class archive of this machine.

    Exit code 1 when something keeps pipelines from running.
    """
    findings = list(examine(folder))
    ok = all(finding.state != "problem" for finding in findings)
    if as_json:
        typer.echo(json.dumps({"ok": ok, "findings": [asdict(one) for one in findings]}))
    else:
        width = max(len(one.what) for one in findings)
        for one in findings:
            line = f"{one.state:7}  {one.what:{width}}  {one.found}"
            typer.echo(f"{line}; {one.todo}" if one.todo else line)
    if not ok:
        raise typer.Exit(1)


def examine(folder: Path) -> Iterator[Finding]:
    """Everything, in the order in which it would stop somebody."""
    yield python_found(sys.version_info[:2])
    yield from (extra_found(extra, *_versions(names)) for extra, names in EXTRAS.items())
    yield from _java()
    yield memory_found(_memory("MemTotal"), _memory("MemAvailable"))
    yield cores_found(len(os.sched_getaffinity(0)))
    yield _disk(folder)
    yield _links(folder)
    yield _ports()


def python_found(have: tuple[int, ...]) -> Finding:
    said = ".".join(map(str, have))
    if (3, 11) <= have < (3, 15):
        return Finding(what="Python", state="ok", found=said)
    return Finding(
        what="Python", state="problem", found=said, todo="use Python 3.11 to 3.14, as PySpark does"
    )


def extra_found(extra: str, found: list[str], missing: list[str]) -> Finding:
    """What an extra of the package brings, and what is not there of it."""
    uses = {"plan": "planning", "spark": "running", "plot": "plots", "web": "web"}[extra]
    if not missing:
        return Finding(what=uses, state="ok", found=", ".join(found))
    return Finding(
        what=uses,
        state="problem" if extra == "spark" else "note",
        found=f"{', '.join(missing)} not installed",
        todo=f"pip install 'holdfast[{extra}]'",
    )


def memory_found(total: float, available: float) -> Finding:
    said = f"{available / GB:.1f} of {total / GB:.1f} GB available"
    nodes = int(available / GB / NODE_GB)
    if nodes >= 2:
        return Finding(what="memory", state="ok", found=f"{said}, for {nodes} nodes")
    return Finding(
        what="memory",
        state="problem" if nodes < 1 else "note",
        found=said,
        todo=f"a node takes about {NODE_GB} GB, and a spare is one more",
    )


def cores_found(cores: int) -> Finding:
    if cores >= 2:
        return Finding(what="cores", state="ok", found=str(cores))
    return Finding(
        what="cores",
        state="note",
        found=str(cores),
        todo="recoveries take long where a new node and a running one share a core",
    )


def room_found(free: float, where: str) -> Finding:
    said = f"{free / GB:.1f} GB free in {where}"
    if free >= ROOM_GB * GB:
        return Finding(what="disk", state="ok", found=said)
    return Finding(what="disk", state="problem", found=said, todo=f"make {ROOM_GB:g} GB of room")


# -- looking --------------------------------------------------------------------------------------


def _versions(names: tuple[str, ...]) -> tuple[list[str], list[str]]:
    found, missing = [], []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    return found, missing


def _java() -> Iterator[Finding]:
    """Java, and the archive of classes that starts it faster, which is of one PySpark."""
    from holdfast.errors import BadInputError
    from holdfast.runtime.spark.start.java import java_program, java_version

    try:
        java = java_program()
    except BadInputError as error:
        yield Finding(what="Java", state="problem", found=error.what, todo=error.hint)
        return
    yield Finding(what="Java", state="ok", found=f"{java_version(java)} ({java})")
    try:
        from holdfast.runtime.spark.start.archive import archive_path
    except ModuleNotFoundError:
        return
    archive = archive_path()
    if archive.exists():
        size = archive.stat().st_size / 1e6
        yield Finding(what="class archive", state="ok", found=f"{archive} ({size:.0f} MB)")
    else:
        yield Finding(
            what="class archive",
            state="note",
            found="not built yet, so sessions start slowly",
            todo="python -m holdfast.runtime.spark.start.prepare, or the first run builds it",
        )


def _memory(name: str) -> float:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    found = {line.partition(":")[0]: line.split()[1] for line in lines}
    return float(found[name]) * 1024


def _disk(folder: Path) -> Finding:
    if not folder.is_dir():
        return Finding(
            what="disk", state="problem", found=f"{folder} does not exist", todo="make it"
        )
    return room_found(float(shutil.disk_usage(folder).free), str(folder.resolve()))


def _links(folder: Path) -> Finding:
    """Records are put by link(2): a file system without it cannot hold a run."""

    def put() -> str:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".holdfast-doctor-") as name:
            one, two = Path(name) / "one", Path(name) / "two"
            one.write_bytes(b"1")
            os.link(one, two)
            return "hard links work"

    return _tried("file system", put, "keep runs on a file system with hard links")


def _ports() -> Finding:
    """Nodes and their coordinator meet on 127.0.0.1."""

    def meet() -> str:
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname(), timeout=5):
                pass
            return "127.0.0.1 can be listened on"

    return _tried("ports", meet, "allow programs to listen on 127.0.0.1")


def _tried(what: str, attempt: Callable[[], str], todo: str) -> Finding:
    try:
        return Finding(what=what, state="ok", found=attempt())
    except OSError as error:
        return Finding(what=what, state="problem", found=str(error), todo=todo)
