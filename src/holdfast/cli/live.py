"""Tables of a running pipeline: the same for `run`, `status` and `nodes`."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.control.status import RunView, UnitView, summary

_COLOURS = {
    "running": "green",
    "recovering": "yellow",
    "starting": "cyan",
    "gathering": "cyan",
    "failed": "red",
    "held": "red",
    "waiting": "yellow",
    "placed": "cyan",
    "stopping": "magenta",
}
_RECOVERIES = 5
_RETRIED = {
    "error": "failed and is tried again",
    "no space": "finds no room to write and waits for some",
    "stopped by itself": "stopped by itself and is started again",
    "stalled": "did nothing and is started again",
    "never started": "did not start and is started again",
}


def live_view(view: RunView, *, epoch_s: float, trouble: str | None = None) -> RenderableType:
    """Everything at once, for a screen that redraws."""
    parts: list[RenderableType] = [headline(view), units_table(view, epoch_s=epoch_s)]
    parts.append(nodes_table(view))
    if view.recoveries:
        parts.append(recoveries_table(view))
    parts += [Text(line, style="yellow") for line in forked(view)]
    parts += [Text(line, style="yellow") for line in (*retries(view), *busy(view), *detours(view))]
    parts += [Text(line, style="red") for line in failures(view)]
    parts += warning(trouble or view.trouble)
    return Group(*parts)


def warning(trouble: str | None) -> list[Text]:
    """What the launcher cannot do, if anything."""
    return [Text(f"warning: {trouble}", style="yellow")] if trouble else []


def headline(view: RunView) -> Text:
    seconds = max(0.0, view.now - view.opened_at)
    open_ = sum(recovery.outcome == "open" for recovery in view.recoveries)
    text = Text(f"{view.pipeline}  ", style="bold")
    text.append(view.status, style=_COLOURS.get(view.status, "white"))
    number = len(view.recoveries)
    told = "1 recovery" if number == 1 else f"{number} recoveries"
    text.append(f"  {seconds:.0f} s  {told}", style="not bold")
    if open_:
        text.append(f", {open_} under way", style="yellow")
    if len(view.coordinators) > 1:
        leader, *others = view.coordinators
        led = f"  {leader} leads term {view.term}, {', '.join(others)} ready"
        text.append(led, style="not bold")
    return text


def units_table(view: RunView, *, epoch_s: float) -> Table:
    table = _table(
        "unit", "phase", "node", "gen", "epoch", "rows/s in", "out", "batch", "lag", "state"
    )
    for unit in view.units:
        waiting = unit.waiting
        table.add_row(
            unit.unit,
            Text(_phase(unit), style=_COLOURS.get(unit.phase, "white")),
            unit.node or "-",
            str(unit.generation),
            _number(unit.epoch),
            _number(unit.rate_in),
            _number(unit.rate_out),
            "-" if unit.batch_ms is None else f"{unit.batch_ms:.0f} ms",
            "-" if waiting is None else f"{waiting * epoch_s:.1f} s",
            _bytes(unit.state_bytes),
        )
    return table


def _phase(unit: UnitView) -> str:
    """With its part, if there is another replica."""
    if unit.leads is None or unit.phase != "running":
        return unit.phase
    return f"{unit.phase}, {'leads' if unit.leads else 'follows'}"


def nodes_table(view: RunView) -> Table:
    table = _table("node", "domain", "role", "units", "pid", "silent", "cpu", "memory", "processes")
    for node in view.nodes:
        role = "spare" if node.spare else "worker"
        if not node.connected:
            role += ", away"
        elif not node.ready:
            role += ", warming"
        table.add_row(
            node.node,
            node.domain or "-",
            role,
            str(len(node.units)),
            str(node.pid),
            "-" if node.silence_s is None else f"{node.silence_s:.1f} s",
            "-" if node.cpu is None else f"{node.cpu:.0%}",
            _bytes(node.memory_bytes),
            _number(node.processes),
        )
    return table


def recoveries_table(view: RunView) -> Table:
    """The latest few, with the durations of their phases."""
    table = _table(
        "recovery", "unit", "why", "from", "to", "detect", "restore", "catch up", "total"
    )
    for recovery in view.recoveries[-_RECOVERIES:]:
        total = _seconds(recovery.total_s)
        table.add_row(
            f"{recovery.id}",
            recovery.unit,
            recovery.reason,
            recovery.from_node,
            recovery.to_node or "-",
            _seconds(recovery.detect_s),
            _seconds(recovery.restore_s),
            _seconds(recovery.catch_up_s),
            total if recovery.outcome in ("open", "caught up") else recovery.outcome,
        )
    return table


def failures(view: RunView) -> list[str]:
    """One line per held unit: which operator, and the line of its traceback that says most.

    Not of hot paths, which are tried again: `detours` has what comes of it.
    """
    return [_failure(unit, "is held") for unit in view.given_up]


def retries(view: RunView) -> list[str]:
    """One line per unit that failed, stopped or hung by itself and is being started again."""
    return [
        _failure(unit, _RETRIED[unit.down])
        for unit in view.units
        if unit.down in _RETRIED and unit.phase != "held"
    ]


def forked(view: RunView) -> list[str]:
    """What results go on without, in the fork that lives; nothing: all of them are exact."""
    live = next((fork for fork in view.forks if fork.ended_at is None), None)
    if live is None:
        return []
    shares = ", ".join(f"{sink} {share:.0%}" for sink, share in live.fidelity.items())
    lines = [
        f"tentative results since {view.now - live.began_at:.0f} s, fork {live.fork}: {live.reason}"
        + (f"; predicted fidelity: {shares}" if shares else "")
    ]
    for unit in live.units:
        where = f"on {unit.node}" if unit.node else "waits for its exact unit"
        reached = "-" if unit.epoch is None else f"epoch {unit.epoch}"
        lines.append(f"  {unit.unit} {where}, {reached}")
    return lines


def busy(view: RunView) -> list[str]:
    """One line per unit that makes no batch because something takes it long."""
    return [f"{unit.unit} is {unit.doing}" for unit in view.units if unit.doing]


def detours(view: RunView) -> list[str]:
    """One line per split that does not take its first path."""
    found = []
    for split in view.splits:
        first = split.paths[0]
        if split.active is None:
            found.append(f"{split.split}: all paths are down; its input waits in the log")
        elif split.active != first.path:
            found.append(
                f"{split.split} takes {split.active}; {first.path} {first.state}: {first.why}"
            )
    return found


def tracebacks(view: RunView) -> list[str]:
    """What held units failed with, in full."""
    return [
        f"{unit.unit}, operator {unit.operator or 'unknown'}:\n{unit.error.rstrip()}"
        for unit in view.units
        if unit.phase == "held" and unit.error
    ]


def _failure(unit: UnitView, what: str) -> str:
    why = summary(unit.error or "") or unit.down or "unknown"
    where = f"operator {unit.operator}" if unit.operator else "no operator known"
    return f"{unit.unit} {what} ({where}): {why}"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < 3 else "right", no_wrap=True)
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"


def _bytes(value: int | None) -> str:
    if value is None:
        return "-"
    size = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit in ("B", "KB", "MB") else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit always fits")
