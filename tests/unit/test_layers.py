"""The architecture, enforced: imports point down, pure layers stay pure."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

SRC = Path(__file__).parents[2] / "src" / "holdfast"

# Lowest first; a package may import from itself and from those before it.
LAYERS = (
    "errors",
    "inputs",
    "plan",
    "quantities",
    "clock",
    "model",
    "topology",
    "predict",
    "planners",
    "draw",
    "health",
    "control",
    "pipeline",
    "runtime",
    "faults",
    "sim",
    "testing",
    "web",
    "cli",
)
PURE = ("model", "plan", "topology", "predict", "planners", "draw", "health", "control", "pipeline")
IMPURE_MODULES = {"time", "random", "asyncio", "pyspark"}
# The only places in otherwise pure packages that act on the world.
SHELLS = {"control/shell", "control/server.py", "control/client.py", "control/__main__.py"}


def _modules() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


@cache
def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def _layer(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "holdfast" and len(parts) > 1 else None


def test_imports_point_down() -> None:
    """A module imports only its own layer and those below it."""
    wrong = []
    for path in _modules():
        relative = path.relative_to(SRC)
        if len(relative.parts) == 1 and relative.name in ("__init__.py", "__main__.py"):
            continue
        own = relative.parts[0].removesuffix(".py")
        assert own in LAYERS, f"{own} has no place in the layers"
        for module in sorted(_imports(path)):
            layer = _layer(module)
            if layer in LAYERS and LAYERS.index(layer) > LAYERS.index(own):
                wrong.append(f"{relative} imports {module}")
    assert wrong == []


def _is_shell(relative: Path) -> bool:
    text = str(relative)
    return any(text == shell or text.startswith(f"{shell}/") for shell in SHELLS)


def test_pure_layers_take_the_world_as_arguments() -> None:
    """Pure layers import neither time, random, asyncio nor pyspark."""
    wrong = []
    for path in _modules():
        relative = path.relative_to(SRC)
        if relative.parts[0] in PURE and not _is_shell(relative):
            roots = {module.split(".")[0] for module in _imports(path)}
            wrong += [f"{relative} imports {name}" for name in sorted(roots & IMPURE_MODULES)]
    assert wrong == []


def test_pyspark_is_imported_in_one_place() -> None:
    """Only runtime/spark knows pyspark."""
    assert len(_modules()) > 100
    for path in _modules():
        if any(module.split(".")[0] == "pyspark" for module in _imports(path)):
            assert path.is_relative_to(SRC / "runtime" / "spark"), path
