"""`holdfast paths`: which path each split takes, and taking another one."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from holdfast.cli.run import Json, RunDir, find_run


def paths(
    take: Annotated[
        str | None, typer.Argument(help="SPLIT:PATH to take from now on; default: show all.")
    ] = None,
    run_dir: RunDir = None,
    reason: Annotated[str, typer.Option(help="Kept with the change.")] = "asked for by hand",
    as_json: Json = False,
) -> None:
    """Show which path each split takes, or have one take another path while it runs.

    Every row is made once: the old path is left where it is, the new one begins right there.
    """
    from holdfast.errors import BadInputError
    from holdfast.rundir.spec import read_spec
    from holdfast.runtime.log.slicelog import SliceLog
    from holdfast.runtime.paths import carried, splits
    from holdfast.runtime.paths import take as take_path
    from holdfast.runtime.rescale import announce

    directory = find_run(None, run_dir)
    known = {segment.name: segment for segment in splits(read_spec(directory).deployment)}
    log = SliceLog(directory)
    if take is not None:
        split, _, path = take.partition(":")
        if split not in known or not path:
            names = ", ".join(f"{name}:{one}" for name, s in known.items() for one in s.paths)
            raise BadInputError(f"no path {take!r}", hint=f"there are: {names or 'none'}")
        change = take_path(log, known[split], path, reason=reason)
        if change is not None:
            announce(directory, [change])
    found: list[dict[str, Any]] = [
        {**asdict(carried(log, segment)), "paths": list(segment.paths)}
        for segment in known.values()
    ]
    if as_json:
        print(json.dumps({"splits": found}))  # noqa: T201
        return
    for one in found:
        others = ", ".join(name for name in one["paths"] if name != one["path"])
        since = f"change {one['change']}: {one['reason']}" if one["change"] else "the run began"
        print(f"{one['split']}: {one['path']} since {since}; others: {others}")  # noqa: T201
