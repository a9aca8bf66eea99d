"""Run the command line in this process and see what a user would see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from holdfast.cli import main


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def holdfast(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """A function that runs `holdfast ARGS...`."""

    def run(*args: object) -> Said:
        monkeypatch.setattr("sys.argv", ["holdfast", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Said(code=int(ended.value.code or 0), out=said.out, err=said.err)

    return run
