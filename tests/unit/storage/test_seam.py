"""Nothing but the storage touches shared files: who touches a file system at all is listed here.

The list says what a module does there and why that is not shared. A new use is either a file of
that kind, and is added on purpose, or goes through `holdfast.storage`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import holdfast

pytestmark = pytest.mark.unit

SRC = Path(holdfast.__file__).parent

INPUT = "files that people give or ask for: applications, plans, statistics, reports"
MACHINE = "processes, logs, scratch and caches of one machine"
SINK = "what a user's sinks hold, outside the run directory"
CONTROL = "the coordinator's own: one writer, and a secret of its owner's"
APART = "breaks or checks what the storage holds, so must not go through it"
FAKE = "a host for tests that has a folder of its own, and must not wait for a disk"
TASK = "slice files and checkpoints in Spark's tasks, at an address that the storage gave"
REASONS = {INPUT, MACHINE, SINK, CONTROL, APART, FAKE}

# The same of Java: only what Spark's tasks write and read by an address of the storage, see
# docs/decisions/0008-one-storage.md, and the program that packs the classes.
JAVA = {
    "Build.java": MACHINE,
    "holdfast/Held.java": TASK,
    "holdfast/LocalFiles.java": TASK,
    "holdfast/SliceFile.java": TASK,
    "holdfast/SliceMessages.java": TASK,
    "holdfast/SliceWriter.java": TASK,
}
# The storage itself, and a model of it that has a memory and no files.
APART_FROM_FILES = {SRC / "storage", SRC / "testing" / "hands"}
LISTED = {
    "cli/__init__.py": ("os.open", MACHINE),
    "cli/chaos.py": ("exists iterdir tempfile.mkdtemp", INPUT),
    "cli/demo.py": ("exists iterdir mkdir shutil.rmtree write_text", INPUT),
    "cli/demo_planners.py": ("mkdir write_text", INPUT),
    "cli/doctor.py": (
        "exists is_dir os.link read_text shutil.disk_usage st_size stat "
        "tempfile.TemporaryDirectory write_bytes",
        MACHINE,
    ),
    "cli/help.py": ("exists", INPUT),
    "cli/init.py": ("exists mkdir read_text write_text", INPUT),
    "cli/logs.py": ("exists glob read_text", MACHINE),
    "cli/check.py": ("exists", INPUT),
    "cli/plan.py": ("write_text", INPUT),
    "cli/profile.py": ("is_dir mkdir os.access replace write_text", INPUT),
    "cli/profiles.py": ("exists is_file st_mtime stat", INPUT),
    "cli/prove.py": ("exists is_dir iterdir tempfile.mkdtemp write_text", INPUT),
    "cli/reproduce.py": ("mkdir os.access tempfile.TemporaryDirectory write_text", INPUT),
    "cli/runs.py": ("glob", MACHINE),
    "cli/shipped.py": ("exists", INPUT),
    "cli/topology.py": ("write_text", INPUT),
    "cli/verify.py": ("is_dir read_text", APART),
    "control/shell/journal.py": (
        "mkdir os.fsync os.open read_bytes replace",
        CONTROL,
    ),
    "control/shell/seat.py": ("unlink", CONTROL),
    "faults/inject.py": (
        "exists is_file mkdir os.truncate read_bytes rename st_size stat unlink write_bytes "
        "write_text",
        APART,
    ),
    "faults/schedule.py": ("read_text", INPUT),
    "inputs.py": ("read_bytes st_size stat", INPUT),
    "pipeline/load.py": ("is_file", INPUT),
    "profile/cache.py": ("exists mkdir replace st_mtime stat write_text", MACHINE),
    "profile/__main__.py": ("os.fdopen", MACHINE),
    "profile/launch.py": ("mkdir open tempfile.TemporaryDirectory", MACHINE),
    "rundir/application.py": ("is_file", INPUT),
    "rundir/endpoint.py": ("os.fdopen os.open read_text replace unlink", CONTROL),
    "rundir/contents.py": ("glob iterdir", MACHINE),
    "runtime/checking.py": (
        "is_dir iterdir mkdir read_text replace st_mtime stat touch unlink write_text",
        MACHINE,
    ),
    "runtime/launch/children.py": (
        "exists glob mkdir open os.truncate read_text replace shutil.copyfile shutil.rmtree "
        "st_mtime st_size stat unlink write_text",
        MACHINE,
    ),
    "runtime/launch/run.py": ("shutil.rmtree unlink", MACHINE),
    "runtime/node/__main__.py": ("logging.handlers.RotatingFileHandler mkdir", MACHINE),
    "runtime/node/processes.py": ("open", MACHINE),
    "runtime/node/program.py": ("mkdir touch", MACHINE),
    "runtime/spark/check_app.py": ("os.fdopen tempfile.TemporaryDirectory", MACHINE),
    "runtime/spark/frames/sabotage.py": ("read_text", APART),
    "runtime/spark/io/files.py": ("pyarrow.parquet.ParquetFile", INPUT),
    "runtime/spark/start/archive.py": (
        "exists fcntl.flock glob mkdir open read_text replace unlink write_text",
        MACHINE,
    ),
    "runtime/spark/start/daemon.py": ("write_text", MACHINE),
    "runtime/spark/start/java.py": (
        "chmod mkdir replace shutil.which st_mtime_ns stat write_text",
        MACHINE,
    ),
    "runtime/spark/start/native.py": (
        "exists fcntl.flock glob mkdir open os.utime read_bytes replace unlink write_text",
        MACHINE,
    ),
    "runtime/spark/start/nursery.py": ("open", MACHINE),
    "runtime/spark/start/prepare.py": ("exists", MACHINE),
    "runtime/spark/start/python.py": (
        "chmod exists is_file mkdir replace write_text",
        MACHINE,
    ),
    "runtime/spark/start/pickled.py": ("mkdir replace write_bytes", INPUT),
    "runtime/spark/start/session.py": ("mkdir", MACHINE),
    "runtime/spark/start/warmup.py": ("shutil.rmtree tempfile.TemporaryDirectory", MACHINE),
    "runtime/spark/units/life.py": ("iterdir read_text", MACHINE),
    "runtime/spark/units/restate.py": (
        "symlink_to tempfile.TemporaryDirectory unlink",
        MACHINE,
    ),
    "runtime/units/exporters.py": (
        "glob mkdir open os.fsync os.link pyarrow.parquet.write_table sync_folder unlink",
        SINK,
    ),
    "runtime/units/superseded.py": ("is_dir iterdir sync_folder unlink", SINK),
    "runtime/units/tables.py": ("sqlite3.connect", SINK),
    "runtime/units/tentative.py": (
        "mkdir open os.fsync os.link pyarrow.parquet.write_table sync_folder unlink",
        SINK,
    ),
    "runtime/units/files.py": (
        "is_file os.listdir os.scandir st_mtime_ns st_size stat",
        INPUT,
    ),
    "runtime/units/places.py": (
        "LocalStorage exists is_dir is_file iterdir mkdir sqlite3.connect unlink",
        SINK,
    ),
    "runtime/units/work.py": ("read_text", MACHINE),
    "scripting/__init__.py": (
        "glob mkdir pyarrow.parquet.read_table sqlite3.connect tempfile.mkdtemp write_text",
        INPUT,
    ),
    "testing/path_trials.py": ("exists st_mtime stat", APART),
    "testing/fake_host.py": (
        "exists mkdir os.link os.listdir read_text replace shutil.copyfile unlink write_text",
        FAKE,
    ),
    "testing/pipelines.py": (
        "glob pyarrow.parquet.read_table tempfile.TemporaryDirectory",
        FAKE,
    ),
    "testing/repartition.py": ("mkdir pyarrow.parquet.write_table rename", INPUT),
    "testing/trial_runs.py": ("write_text", INPUT),
    "topology/files.py": ("write_text", INPUT),
    "verify/keep.py": ("mkdir shutil.copyfile", APART),
    "verify/sinks.py": (
        "is_dir is_file iterdir pyarrow.parquet.read_table read_bytes read_text sqlite3.connect",
        APART,
    ),
    "verify/slice_log.py": (
        "glob is_dir is_file iterdir pyarrow.OSFile read_bytes read_text",
        APART,
    ),
    "verify/tentative.py": (
        "is_dir is_file iterdir pyarrow.parquet.read_metadata sqlite3.connect",
        APART,
    ),
}

PATH_METHODS = {
    "OSFile",
    "chmod",
    "exists",
    "glob",
    "hardlink_to",
    "is_dir",
    "is_file",
    "is_symlink",
    "iterdir",
    "lstat",
    "memory_map",
    "mkdir",
    "open",
    "read_bytes",
    "read_text",
    "readlink",
    "rename",
    "replace",
    "rglob",
    "rmdir",
    "samefile",
    "stat",
    "symlink_to",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
}
OS_FUNCTIONS = {
    "access",
    "chmod",
    "chown",
    "copy_file_range",
    "fdatasync",
    "fdopen",
    "fstat",
    "fsync",
    "ftruncate",
    "link",
    "listdir",
    "lstat",
    "makedirs",
    "mkdir",
    "mkfifo",
    "open",
    "posix_fallocate",
    "readlink",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "scandir",
    "sendfile",
    "stat",
    "statvfs",
    "symlink",
    "truncate",
    "unlink",
    "utime",
    "walk",
}
OF_PATHS_ALONE = {
    "hardlink_to",
    "iterdir",
    "read_bytes",
    "read_text",
    "rglob",
    "rmdir",
    "symlink_to",
    "write_bytes",
    "write_text",
}
"""Methods that nothing else has: to hand one on is to use it."""
OS_PATH_FUNCTIONS = {
    "exists",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "lexists",
    "samefile",
}
FUNCTIONS = {
    "os": OS_FUNCTIONS,
    "os.path": OS_PATH_FUNCTIONS,
    "pyarrow": {"OSFile", "input_stream", "memory_map", "output_stream"},
    "pyarrow.parquet": {
        "ParquetDataset",
        "ParquetFile",
        "ParquetWriter",
        "read_metadata",
        "read_pandas",
        "read_schema",
        "read_table",
        "write_metadata",
        "write_table",
        "write_to_dataset",
    },
    "io": {"FileIO", "open"},
    "logging": {"FileHandler"},
    "logging.handlers": {
        "RotatingFileHandler",
        "TimedRotatingFileHandler",
        "WatchedFileHandler",
    },
    "numpy": {"fromfile", "genfromtxt", "load", "loadtxt", "memmap", "save", "savetxt", "savez"},
}
"""Modules some of whose functions touch files."""
MODULES = {
    "bz2",
    "codecs",
    "dbm",
    "fcntl",
    "fileinput",
    "glob",
    "gzip",
    "linecache",
    "lzma",
    "mmap",
    "posix",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.feather",
    "pyarrow.fs",
    "pyarrow.json",
    "pyarrow.orc",
    "shelve",
    "shutil",
    "sqlite3",
    "tarfile",
    "tempfile",
}
"""Modules all of whose functions do."""
STATUS = {"st_atime", "st_ctime", "st_ino", "st_mtime", "st_mtime_ns", "st_nlink", "st_size"}
STORAGE = {"LocalStorage", "remove_temporaries", "sync_folder"}
"""Of the local back end: others open a storage by its address, and do not ask which one it is."""


def uses(source: str) -> set[str]:
    """How a module touches a file system, as far as its text shows it."""
    telling = (ast.Import, ast.ImportFrom, ast.Call, ast.Attribute)  # the others say nothing here
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, telling)]
    known = dict(bound for node in nodes for bound in _bound(node))
    return {found for node in nodes for found in _uses(node, known)}


def _bound(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import gives to modules, and to `Path`."""
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield (
                    (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
                )
        case ast.ImportFrom(module=str(module), names=names):
            for alias in names:
                yield alias.asname or alias.name, f"{module}.{alias.name}"


def _dotted(node: ast.AST, known: Mapping[str, str]) -> str:
    """What an expression names, by what was imported; empty: none of that."""
    match node:
        case ast.Name(id=name):
            return known.get(name, "")
        case ast.Attribute(value=whose, attr=name):
            outer = _dotted(whose, known)
            return f"{outer}.{name}" if outer else ""
    return ""


def _uses(node: ast.AST, known: Mapping[str, str]) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id="open")):
            yield "open"
        case ast.Call(func=ast.Attribute(value=whose, attr=name), args=arguments):
            module = _dotted(whose, known)
            if module in MODULES:
                yield f"{module}.{name}"
            elif module in FUNCTIONS or module == "pathlib.Path":
                pass  # seen without the call
            elif name in PATH_METHODS and _is_path_method(ast.unparse(whose), name, len(arguments)):
                yield name
        case ast.ImportFrom(module=str(module), names=names) if module in {*MODULES, *FUNCTIONS}:
            yield from (f"from {module} import {alias.name}" for alias in names)
        case ast.ImportFrom(module="holdfast.storage.local", names=names):
            yield from (alias.name for alias in names if alias.name in STORAGE)
        case ast.Attribute(attr=name) if name in STATUS:
            yield name
    if isinstance(node, ast.Attribute):
        yield from _named(node, known)


def _named(node: ast.Attribute, known: Mapping[str, str]) -> Iterator[str]:
    """Functions that may be called here or handed on: `os.replace`, `path.unlink`."""
    module, name = _dotted(node.value, known), node.attr
    if module in MODULES:
        if name[0].islower():  # neither an exception nor a constant
            yield f"{module}.{name}"
    elif module in FUNCTIONS:
        if name in FUNCTIONS[module]:
            yield f"{module}.{name}"
    elif (module == "pathlib.Path" and name in PATH_METHODS) or name in OF_PATHS_ALONE:
        yield name


def _is_path_method(whose: str, name: str, arguments: int) -> bool:
    """Whether a call is one of a path: other things have methods of these names too."""
    match name:
        case "replace":  # of a string it takes two arguments; of the storage: a name and data
            return arguments == 1
        case "exists":  # of the storage it takes a name
            return arguments == 0
        case "open":  # of a unit's host and of a coordinator's state it opens no file
            return not whose.endswith(("host", "self", ".run", "_state"))
    return True


def test_only_those_listed_touch_files():
    """A module that reads, writes, links or dates a file does so on purpose."""
    found = {
        str(path.relative_to(SRC)): uses(path.read_text())
        for path in sorted(SRC.rglob("*.py"))
        if path.parent not in APART_FROM_FILES
    }
    assert len(found) > 100
    listed = {name: set(did.split()) for name, (did, _) in LISTED.items()}
    new = {
        name: sorted(did - listed.get(name, set()))
        for name, did in found.items()
        if did - listed.get(name, set())
    }
    assert new == {}, "go through holdfast.storage, or say above why these files are not shared"
    gone = {
        name: sorted(did - found.get(name, set()))
        for name, did in listed.items()
        if did - found.get(name, set())
    }
    assert gone == {}, "no longer done: take it off the list"


def test_only_those_listed_touch_files_in_java():
    """Classes outside Python see files where the storage says so, and nowhere else."""
    folder = SRC / "runtime" / "spark" / "java"
    found = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.java")
        if re.search(
            r"java\.(io\.(File|RandomAccess)|nio\.(file|channels\.File))", path.read_text()
        )
    }
    assert found == set(JAVA)


def test_every_entry_says_why():
    """One of the reasons there are, so that the list shows what kinds of files there are."""
    assert {why for _, why in LISTED.values()} == REASONS


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('(folder / "t0-1").stat().st_mtime', {"stat", "st_mtime"}),
        ('(root / "log").mkdir(parents=True)', {"mkdir"}),
        ("path.unlink(missing_ok=True)", {"unlink"}),
        ("for path in folder.iterdir(): ...", {"iterdir"}),
        ("folder.exists()", {"exists"}),
        ("temporary.replace(path)", {"replace"}),
        ('with path.open("rb") as file: ...', {"open"}),
        ("with path.open() as file: ...", {"open"}),
        ('open(f"{root}/origin")', {"open"}),
        ("import os; os.link(a, b)", {"os.link"}),
        ("import os as system; system.replace(a, b)", {"os.replace"}),
        ("import os; list(map(os.unlink, paths))", {"os.unlink"}),
        ("import os; os.path.getmtime(a)", {"os.path.getmtime"}),
        ("from os import path; path.getmtime(a)", {"from os import path", "os.path.getmtime"}),
        ("import os; os.getpid()", set()),
        ("temporary.rename(path)", {"rename"}),
        ("from pathlib import Path; Path.replace(a, b)", {"replace"}),
        ("from pathlib import Path as P; P(a).rename(b)", {"rename"}),
        ("atexit.register(path.write_text, text)", {"write_text"}),
        ("import shutil; shutil.move(a, b)", {"shutil.move"}),
        ("import shutil as sh; sh.copytree(a, b)", {"shutil.copytree"}),
        ("from tempfile import mkdtemp", {"from tempfile import mkdtemp"}),
        ("import sqlite3\ntry: ...\nexcept sqlite3.Error: ...", set()),
        ("import pyarrow.parquet as pq; pq.write_table(rows, f)", {"pyarrow.parquet.write_table"}),
        ("from os import link", {"from os import link"}),
        ("import shutil; shutil.rmtree(folder)", {"shutil.rmtree"}),
        ("LocalStorage = 1", set()),
        ("from holdfast.storage.local import LocalStorage", {"LocalStorage"}),
        ('store.exists("origin")', set()),
        ('store.replace("run.json", data)', set()),
        ('name.replace("_", " ")', set()),
        ("replace(record, number=1)", set()),
        ("self._host.open()", set()),
        ("pa.memory_map(path)", {"memory_map"}),
        ("import pyarrow.parquet as pq; pq.read_metadata(f)", {"pyarrow.parquet.read_metadata"}),
        ("import pyarrow.feather as f; f.write_feather(t, p)", {"pyarrow.feather.write_feather"}),
        ("import os; os.ftruncate(file, 0)", {"os.ftruncate"}),
        ("import os; os.path.islink(a)", {"os.path.islink"}),
        ("import gzip; gzip.open(a)", {"gzip.open"}),
        (
            "import logging.handlers; logging.handlers.RotatingFileHandler(p)",
            {"logging.handlers.RotatingFileHandler"},
        ),
    ],
)
def test_the_list_sees_what_touches_files(line, found):
    """And takes neither strings nor the storage's own methods for it."""
    assert uses(line) == found
