"""The examples that come with Holdfast: inside an installed package, or in the source tree."""

from __future__ import annotations

from pathlib import Path


def shipped(name: str) -> Path:
    """Where an example is."""
    import holdfast
    from holdfast.errors import HoldfastError

    package = Path(holdfast.__file__).parent
    for home in (package / "examples", package.parents[1] / "examples"):
        if (home / name).exists():
            return home / name
    raise HoldfastError(f"the shipped example {name} is missing: reinstall holdfast")
