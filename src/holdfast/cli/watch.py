"""While `holdfast run` runs: what it shows, how it is interrupted, what it says at its end."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from holdfast.cli.check import note

if TYPE_CHECKING:
    from holdfast.cli.learning import Promised
    from holdfast.control.status import RunView
    from holdfast.runtime.launch.run import LocalRun, StopReport

_STARTING = ("gathering", "starting")


def watch(
    local: LocalRun,
    limit_s: float | None,
    *,
    quiet: bool,
    promised: Promised | str | None = None,
) -> RunView | None:
    """Show progress until the time is over or the run ends; gives the last view.

    The time counts from when everything runs: how long a start takes depends on the machine, and
    a run that was only started has no rows to show.
    """
    from rich.console import Console
    from rich.live import Live

    from holdfast.cli.learning import Keeper
    from holdfast.cli.live import failures, headline, live_view, retries
    from holdfast.control.shell.wire import ConnectionLostError

    console = Console(stderr=True)
    drawn = console.is_terminal and not quiet
    end: float | None = None
    epoch_s = local.spec.deployment.epoch_s
    view: RunView | None = None
    said = ""
    warned: str | None = None
    shown = Live(console=console, auto_refresh=False) if drawn else contextlib.nullcontext()
    with Keeper(local.run_dir, note, epoch_s, promised) as keeper, shown as live:
        while end is None or time.monotonic() < end:
            with contextlib.suppress(ConnectionLostError):
                view = local.status()
                keeper.look(view)
                if limit_s is not None and end is None and view.status not in _STARTING:
                    end = time.monotonic() + limit_s
                line = headline(view).plain.split("  ")[1]
                trouble = local.launcher.trouble or keeper.warning
                if live is not None:
                    live.update(live_view(view, epoch_s=epoch_s, trouble=trouble), refresh=True)
                elif line != said:
                    said = line
                    for text in (headline(view).plain, *retries(view), *failures(view)):
                        note(text)
            if live is None and (trouble := local.launcher.trouble) not in (None, warned):
                warned = trouble
                note(f"warning: {trouble}")
            pause = 0.5 if end is None else max(0.0, min(0.5, end - time.monotonic()))
            if local.launcher.finished.wait(pause):
                break
    return view


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """A polite kill is like Ctrl-C; afterwards both mean again what they meant before."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's, which is somebody else's here
        return
    before = signal.getsignal(signal.SIGINT)
    terminate = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, terminate)


def stop(local: LocalRun) -> StopReport:
    """Stop, whatever else is pressed meanwhile."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return local.stop()


def finish(directory: Path, view: RunView | None, report: StopReport, *, as_json: bool) -> None:
    """Say how the run ended; exit code 1 if it failed or left something behind."""
    from holdfast.cli.live import failures, tracebacks

    failed = failures(view) if view else []
    if report.given_up:
        note(f"given up: {report.given_up}")
        for line in report.last_words:
            note(f"  {line}")
    if as_json:
        shown = view.to_json() if view else {}
        result = {
            "run_dir": str(directory),
            "status": "failed" if failed or report.given_up else "stopped",
            "given_up": report.given_up,
            "last_words": list(report.last_words),
            "clean": report.clean,
            "killed": list(report.killed),
            "left": list(report.left),
            "units": shown.get("units", []),
            "recoveries": shown.get("recoveries", []),
        }
        print(json.dumps(result))  # noqa: T201
    else:
        note(f"stopped; killed {', '.join(report.killed)}" if report.killed else "stopped")
        for line in failed:
            note(line)
        for text in tracebacks(view) if view else ():
            note(f"\n{text}")
    if failed or report.left or report.given_up:
        raise typer.Exit(1)
