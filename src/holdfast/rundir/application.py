"""Where an application is: by its file, so that it means the same from every directory."""

from __future__ import annotations

from pathlib import Path


def absolute_app(app: str) -> str:
    """An application with its full path, if it is a file: nodes run in another directory."""
    target, colon, attribute = app.partition(":")
    return f"{Path(target).resolve()}{colon}{attribute}" if Path(target).is_file() else app


def app_folder(app: str) -> Path:
    """Where relative paths of an application's sources begin.

    At its file, wherever a run is started or resumed; for a module, where the command is given.
    """
    target = Path(app.partition(":")[0])
    return target.resolve().parent if target.is_file() else Path.cwd()
