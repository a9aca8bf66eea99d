"""`holdfast paths`: which path each split takes, its circuit breakers, and what to tell them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from holdfast.cli.runs import Json, RunDir, client_of, find_run

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.control.status import PathView, SplitView
    from holdfast.health.policy import Policy


VERBS = ("open", "close", "prefer")
LATE_S = 1.0
"""A probe that is due is begun by the next tick, a small part of this later."""


def paths(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[open|close|prefer]",
            autocompletion=lambda: list(VERBS),
            help="open: do not use a path; close: trust it again; prefer: use it whenever it may "
            "be used. SPLIT:PATH alone is `prefer SPLIT:PATH`.",
        ),
    ] = None,
    path: Annotated[
        str | None,
        typer.Argument(help="SPLIT:PATH; of `prefer`, SPLIT alone means by order again."),
    ] = None,
    run_dir: RunDir = None,
    settings: Annotated[
        bool, typer.Option("--settings", help="Show all settings of breakers and rules.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show which path each split takes and the state of every breaker, or change it.

    Every row is made once: the old path is left where it is, the new one begins right there.
    """
    from rich.console import Console

    from holdfast.errors import BadInputError
    from holdfast.rundir.spec import read_spec

    _check_words(what, path)
    try:
        directory = find_run(None, run_dir)
    except BadInputError:
        if run_dir is not None or not settings or what is not None:
            raise
        _show_defaults(as_json=as_json)
        return
    spec = read_spec(directory)
    asked = _asked(what, path, {item.name: item.paths for item in spec.deployment.segments})
    with client_of(directory) as client:
        if asked is not None:
            client.ask_path(*asked)
        found = client.status().splits
    shown = _settings(spec.policy) if settings or as_json else {}
    if as_json:
        splits = [asdict(item) for item in found]
        print(json.dumps({"splits": splits, "settings": shown}))  # noqa: T201
        return
    console = Console()
    if not found:
        console.print("no operator of this run has alternative paths")
    for item in found:
        console.print(headline(item))
        console.print(breakers_table(item))
    for name, value in shown.items():
        console.print(f"{name} = {value}")


def headline(split: SplitView) -> str:
    """One line about a split."""
    if split.active is None:
        return f"{split.split}: all paths are down; its input waits in the log"
    preferred = f", {split.preferred} preferred" if split.preferred else ""
    late = f", taking over from {split.carried}" if split.carried not in ("", split.active) else ""
    return f"{split.split}: {split.active}{preferred}{late}"


def breakers_table(split: SplitView) -> Table:
    """The breakers of a split, in the order of its paths."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("path", "breaker", "for", "bad probes", "next probe", "why", box=None)
    for item in split.paths:
        table.add_row(
            item.path,
            f"{item.state}{' by hand' if item.by_hand else ''}",
            f"{item.for_s:.0f} s",
            str(item.bad_probes),
            _next_probe(item),
            escape(item.why),  # messages of Spark begin with [A_CONDITION]
        )
    return table


def _next_probe(path: PathView) -> str:
    """When a path is tried again; one that is due and not tried has no node for it."""
    if path.probe_in_s is None:
        return ""
    late = path.probe_in_s < -LATE_S
    return "waits for a free node" if late else f"in {max(0.0, path.probe_in_s):.0f} s"


def _check_words(what: str | None, path: str | None) -> None:
    """What no run could do is said without looking for one."""
    from holdfast.errors import BadInputError

    if path is not None and what not in VERBS:
        raise BadInputError(f"cannot {what} a path", hint="open, close or prefer SPLIT:PATH")
    if path is None and what in VERBS:
        raise BadInputError(f"{what} which path?", hint=f"holdfast paths {what} SPLIT:PATH")


def _show_defaults(*, as_json: bool) -> None:
    """Before there is a run: what `run --breaker` can set."""
    from holdfast.health.policy import Policy

    shown = _settings(Policy())
    if as_json:
        print(json.dumps({"splits": [], "settings": shown}))  # noqa: T201
        return
    print("nothing runs here; these are the defaults")  # noqa: T201
    for name, value in shown.items():
        print(f"{name} = {value}")  # noqa: T201


def _asked(
    what: str | None, path: str | None, known: Mapping[str, tuple[str, ...]]
) -> tuple[Literal["open", "close", "prefer"], str, str] | None:
    """What to ask for; None: nothing. Raises BadInputError for what there is not."""
    from holdfast.errors import BadInputError

    if what is None:
        return None
    place = what if path is None else path
    verb: Literal["open", "close", "prefer"] = "prefer"
    match what if path is not None else "prefer":
        case "open" | "close" | "prefer" as asked:
            verb = asked
    split, _, name = place.partition(":")
    by_order = verb == "prefer" and path is not None and not name
    if name not in known.get(split, ()) and not (by_order and known.get(split)):
        names = ", ".join(f"{one}:{path}" for one, paths in known.items() for path in paths)
        raise BadInputError(f"no path {place!r}", hint=f"there are: {names or 'none'}")
    return verb, split, name


def _settings(policy: Policy) -> dict[str, float | None]:
    """All settings of a run, by the names that `--breaker` knows."""
    from holdfast.health.nexus.classify import rule_settings

    found: dict[str, float | None] = {**asdict(policy.breaker), **rule_settings()}
    for rule, values in policy.rules.items():
        found.update({f"{rule}.{name}": value for name, value in values.items()})
    return found
