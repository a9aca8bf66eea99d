"""The architecture, enforced: who may import whom, what stays pure, how long things may be.

A new package needs a line in `EDGES` and one in the picture of docs/architecture.md; a failing test
prints both.
"""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "holdfast"
PAGE = ROOT / "docs" / "architecture.md"

# What every package may import, and which of these may import which.
BASE = {"errors": "", "clock": "", "inputs": "errors", "quantities": "errors"}
# Every edge there is between packages: each may import those behind it, itself and the base.
EDGES = {
    "cli": (
        "control deployment draw faults health learning pipeline plan planners predict profile "
        "prove reproduce rundir runtime storage streams testing topology verify web"
    ),
    "control": "deployment health rundir storage streams",
    "deployment": "",
    "draw": "plan topology",
    "faults": "control deployment health pipeline rundir runtime verify",
    "health": "",
    "learning": "plan predict topology",
    "pipeline": "deployment plan topology verify",
    "plan": "",
    "planners": "plan predict topology",
    "predict": "topology",
    "profile": "control deployment health pipeline predict rundir runtime storage streams",
    "prove": (
        "control deployment draw faults health pipeline plan rundir runtime streams topology verify"
    ),
    "reproduce": "draw plan planners testing topology",
    "rundir": "deployment health storage streams",
    "runtime": "control deployment pipeline rundir storage streams",
    "scripting": "cli draw pipeline plan planners predict prove rundir runtime topology",
    "storage": "",
    "streams": "deployment",
    "testing": (
        "control deployment faults health pipeline planners predict rundir runtime streams "
        "topology verify"
    ),
    "topology": "",
    "verify": "",
    "web": "control deployment rundir",
}
# The same between the rooms of the run time: its folders, those of Spark, and files beside them.
ROOMS = {
    "autoscale": "log rescale",
    "checking": "",
    "checkpoint": "log",
    "host": "",
    "launch": "node",
    "log": "",
    "node": "host spark/host",
    "paths": "log",
    "recut": "checkpoint log rescale",
    "rescale": "checkpoint log",
    "spark/check_app": "spark/frames spark/start",
    "spark/frames": "spark/io",
    "spark/host": "log paths spark/frames spark/start spark/units units",
    "spark/io": "checkpoint log",
    "spark/start": "log spark/frames spark/io units",
    "spark/units": "checkpoint log spark/frames spark/io spark/start units",
    "units": "log",
}
# Modules that are named in a string and loaded by it, against the list; each for a reason.
NAMED = {
    # A host for tests, which a run's settings may name: `--host fake`.
    ("runtime", "testing"),
}
# Imports against the order, each for a reason.
BACK_EDGES = {
    # A method of the user's API asks another module, when it is called.
    ("holdfast.pipeline.api", "holdfast.pipeline.graph"),
    # For the types alone.
    ("holdfast.pipeline.stream", "holdfast.pipeline.api"),
    ("holdfast.planners.ppa.fidelity_levels", "holdfast.planners.ppa.fidelity"),
    ("holdfast.topology.checks", "holdfast.topology.graph"),
}
PURE = {
    "control",
    "deployment",
    "draw",
    "health",
    "learning",
    "pipeline",
    "plan",
    "planners",
    "predict",
    "reproduce",
    "rundir",
    "streams",
    "topology",
    "verify",
}
IMPURE_MODULES = {
    "asyncio",
    "multiprocessing",
    "pyspark",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
}
# What stands for them here: those who may have it are handed it by others.
WORLDLY = {
    "holdfast.clock.SystemClock",
    "holdfast.clock.WallClock",
    "holdfast.storage.identity",
}
# The only places in otherwise pure packages that act on the world.
SHELLS = {"control/shell", "control/client.py", "control/__main__.py", "verify/keep.py"}
MOST_LINES = 500
MOST_FUNCTION_LINES = 70


@cache
def _modules() -> dict[Path, ast.Module]:
    found = {path: ast.parse(path.read_text()) for path in sorted(SRC.rglob("*.py"))}
    assert len(found) > 100
    return found


@cache
def _statements(path: Path) -> list[ast.stmt]:
    return _inner(_modules()[path])


def _inner(module: ast.Module) -> list[ast.stmt]:
    """All of a module, in functions too; expressions, which are most of it, are not walked."""
    found: list[ast.stmt] = []
    left: list[ast.AST] = [module]
    while left:
        for name, value in ast.iter_fields(left.pop()):
            if name in ("body", "orelse", "finalbody", "handlers", "cases") and value:
                inner = value if isinstance(value, list) else []
                found += [node for node in inner if isinstance(node, ast.stmt)]
                left += inner
    return found


@cache
def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in _statements(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def _package(path: Path) -> str | None:
    """The package of a file; None: the public names, which stand above all."""
    relative = path.relative_to(SRC)
    if len(relative.parts) == 1 and relative.name in ("__init__.py", "__main__.py"):
        return None
    return relative.parts[0].removesuffix(".py")


@cache
def _found() -> dict[str, dict[str, Path]]:
    """Package to the packages it imports, each with a file that does."""
    packages = {name for path in _modules() if (name := _package(path))}
    found: dict[str, dict[str, Path]] = {name: {} for name in sorted(packages)}
    for path in _modules():
        own = _package(path)
        for module in _imports(path):
            parts = module.split(".")
            if own and parts[0] == "holdfast" and len(parts) > 1:
                other = parts[1]
                if other != own and other in packages:
                    found[own].setdefault(other, path.relative_to(SRC))
    return found


def _allowed() -> dict[str, set[str]]:
    return {
        **{name: set(said.split()) for name, said in BASE.items()},
        **{name: set(said.split()) | set(BASE) for name, said in EDGES.items()},
    }


def test_packages_import_only_what_the_list_allows() -> None:
    """An edge is added on purpose, not by an import."""
    allowed = _allowed()
    wrong = [
        f"{file} imports {other}: not in the list of {package}"
        for package, others in _found().items()
        for other, file in others.items()
        if other not in allowed.get(package, set())
    ]
    assert wrong == []


def test_modules_named_in_strings_are_in_the_list_too() -> None:
    """What is loaded by its name, or started as a program, is imported all the same."""
    allowed, found = _allowed(), set()
    for path in _modules():
        own = _package(path)
        for name in re.findall(r"""["']holdfast\.(\w+)[\w.]*(?::\w+)?["']""", path.read_text()):
            if own and name != own and ((SRC / name).is_dir() or (SRC / f"{name}.py").exists()):
                found.add((own, name))
    assert {edge for edge in found if edge[1] not in allowed[edge[0]]} == NAMED


def test_the_list_is_what_is_there() -> None:
    """Every package and every edge of it; what nobody imports any more is taken out."""
    found = {name: " ".join(sorted(set(others) - set(BASE))) for name, others in _found().items()}
    assert {name: said for name, said in found.items() if name not in BASE} == EDGES


def test_packages_form_no_cycle() -> None:
    """Each can be read, tested and replaced with only what is below it."""
    order = list(graphlib.TopologicalSorter(_allowed()).static_order())
    assert set(order) == set(_allowed())


def _room(parts: tuple[str, ...]) -> str:
    """The room of a module of the run time, named by the path below `runtime`."""
    return "/".join(parts[:2]) if parts[0] == "spark" else parts[0]


def test_rooms_of_the_run_time_import_only_what_the_list_allows() -> None:
    """Nor do they form a cycle: the log knows no unit, a unit no node, a node no launcher."""
    runtime = SRC / "runtime"
    modules = {path for path in _modules() if path.is_relative_to(runtime)}
    found: dict[str, set[str]] = {}
    for path in modules:
        relative = path.relative_to(runtime).with_suffix("").parts
        if relative[-1] == "__init__" and len(relative) <= 2:
            continue  # rooms' own doors, which hold a sentence or names of the room
        others = found.setdefault(_room(relative), set())
        for module in _imports(path):
            parts = tuple(module.split(".")[2:])
            if module.startswith("holdfast.runtime.") and _is_module(runtime, parts):
                others.add(_room(parts))
    edges = {name: " ".join(sorted(others - {name})) for name, others in sorted(found.items())}
    assert edges == ROOMS
    graph = {name: said.split() for name, said in edges.items()}
    assert set(graphlib.TopologicalSorter(graph).static_order()) == set(ROOMS)


def _is_module(folder: Path, parts: tuple[str, ...]) -> bool:
    path = folder.joinpath(*parts)
    return path.with_suffix(".py").exists()


def test_modules_form_no_cycle() -> None:
    """Not even with imports that wait until they are needed."""
    names = {
        ".".join(("holdfast", *path.relative_to(SRC).with_suffix("").parts)): path
        for path in _modules()
    }
    names = {name.removesuffix(".__init__"): path for name, path in names.items()}
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        others = {other for other in _imports(path) if other in names and other != name}
        # `from package import module` names both; the package is only passed through.
        graph[name] = {
            other
            for other in others
            if (name, other) not in BACK_EDGES
            and not any(deeper.startswith(f"{other}.") for deeper in others)
        }
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(names)


def _reduced() -> set[tuple[str, str]]:
    """The edges between packages without those that others imply: what a picture can show."""
    edges = {name: set(said.split()) for name, said in EDGES.items()}
    reach: dict[str, set[str]] = {}
    for name in graphlib.TopologicalSorter(edges).static_order():
        reach[name] = edges[name].union(*(reach[other] for other in edges[name]))
    return {
        (name, other)
        for name, others in edges.items()
        for other in others
        if not any(other in reach[between] for between in others)
    }


def test_the_picture_shows_the_imports() -> None:
    """The page draws an arrow for each edge that no others imply, and no other arrow."""
    picture = PAGE.read_text().partition("```mermaid")[2].partition("```")[0]
    drawn = set(re.findall(r"^ *(\w+) --> (\w+)$", picture, re.MULTILINE))
    named = set(re.findall(r'^ *(\w+)\["(\w+)/', picture, re.MULTILINE))
    expected = _reduced()
    lines = "\n".join(f"  {a} --> {b}" for a, b in sorted(expected))
    assert drawn == expected, f"draw these:\n{lines}"
    assert named == {(name, name) for name in EDGES}, "give every package a box"


def _is_shell(relative: Path) -> bool:
    text = str(relative)
    return any(text == shell or text.startswith(f"{shell}/") for shell in SHELLS)


def test_pure_packages_take_the_world_as_arguments() -> None:
    """They import nothing that tells time, draws, starts threads, talks or runs Spark."""
    wrong = []
    for path in _modules():
        relative = path.relative_to(SRC)
        if relative.parts[0] in PURE and not _is_shell(relative):
            imports = _imports(path)
            roots = {module.split(".")[0] for module in imports}
            found = (roots & IMPURE_MODULES) | (imports & WORLDLY)
            wrong += [f"{relative} imports {name}" for name in sorted(found)]
    assert wrong == []


def test_pyspark_is_imported_where_queries_run_and_where_they_are_measured() -> None:
    """Only runtime/spark, profile/spark, what generated pipelines run and what is compared with."""
    places = (
        SRC / "runtime" / "spark",
        SRC / "profile" / "spark",
        SRC / "testing" / "random_pipelines" / "spark.py",
        SRC / "testing" / "repartition.py",
    )
    for path in _modules():
        if any(module.split(".")[0] == "pyspark" for module in _imports(path)):
            assert any(path.is_relative_to(place) for place in places), path


def test_the_checker_knows_nothing_of_what_it_checks() -> None:
    """The verifier imports errors and itself; everything else it reads from documented files."""
    modules = [path for path in _modules() if path.is_relative_to(SRC / "verify")]
    assert len(modules) > 4
    assert set(_found()["verify"]) == {"errors"}
    assert not _found()["errors"]


def test_what_needs_no_spark_is_free_of_it() -> None:
    """The log, checkpoints as files and units that are threads never reach runtime/spark."""
    for folder in ("log", "checkpoint", "units"):
        modules = [path for path in _modules() if path.is_relative_to(SRC / "runtime" / folder)]
        assert modules
        for path in modules:
            wrong = {name for name in _imports(path) if name.startswith("holdfast.runtime.spark")}
            assert not wrong, f"{path} imports {wrong}"


def test_modules_and_functions_stay_short() -> None:
    """A module is read in one sitting, a function at one glance."""
    long = [
        f"{path.relative_to(SRC)} has {lines} lines"
        for path in _modules()
        if (lines := len(path.read_text().splitlines())) > MOST_LINES
    ]
    for path in _modules():
        long += [f"{path.relative_to(SRC)}: {what}" for what in _long_functions(_statements(path))]
    assert long == []


def test_tests_are_short_and_stand_where_their_subject_stands() -> None:
    """What is beside the sources keeps their limits, and unit tests mirror their folders."""
    long = []
    for top in ("tests", "benchmarks", "scripts", "examples"):
        for path in sorted((ROOT / top).rglob("*.py")):
            text = path.read_text()
            found = list(_long_functions(_inner(ast.parse(text))))
            if (lines := len(text.splitlines())) > MOST_LINES:
                found.append(f"has {lines} lines")
            long += [f"{path.relative_to(ROOT)}: {what}" for what in found]
    assert long == []
    unit = ROOT / "tests" / "unit"
    homeless = {
        str(path.parent.relative_to(unit))
        for path in unit.rglob("test_*.py")
        if not any((top / path.parent.relative_to(unit)).is_dir() for top in (SRC, ROOT))
    }
    assert homeless == set()


def _long_functions(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_command(node):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > MOST_FUNCTION_LINES:
                yield f"{node.name} has {lines} lines"


@pytest.mark.parametrize(
    ("head", "long"),
    [
        ("def work():", ["work has 71 lines"]),
        ("async def work():", ["work has 71 lines"]),
        ("class Works:\n def work(self):", ["work has 71 lines"]),
        ("if True:\n def work():", ["work has 71 lines"]),
        ("def command(n: Annotated[int, typer.Option()]):", []),
    ],
)
def test_a_long_function_is_seen_wherever_it_stands(head: str, long: list[str]) -> None:
    """In a class or a branch, too; only the definition of a command may be long."""
    body = "\n".join(["  pass"] * 70)
    assert list(_long_functions(_inner(ast.parse(f"{head}\n{body}")))) == long


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it defines a command: its options, with their help, stand in its signature."""
    arguments = (*node.args.args, *node.args.kwonlyargs)
    return any(
        argument.annotation is not None and "typer." in ast.unparse(argument.annotation)
        for argument in arguments
    )
