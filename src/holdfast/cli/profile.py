"""`holdfast profile`: measure a pipeline and this machine, for `plan --stats`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import BadInputError

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.predict.statistics import MachineStatistics, Measure, Statistics
    from holdfast.topology.graph import Topology

THOROUGH_S = 60.0
DEFAULT_S = 20.0
QUICK_S = 10.0
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


def profile(
    app: Annotated[str, typer.Argument(help="Application: FILE.py, FILE.py:NAME or MODULE:NAME.")],
    duration: Annotated[
        str | None,
        typer.Option(
            "--for", help="How long to run the pipeline; default 20s, --quick 10s, --thorough 60s."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to; default: where `plan` finds it.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Never measure the machine, and run the pipeline shorter."),
    ] = False,
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help="More care, and the machine measured again: minutes more."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a pipeline on Spark and measure its operators and this machine."""
    from holdfast.cli.check import note, sound_pipeline
    from holdfast.cli.profiles import profile_path
    from holdfast.cli.prove import interruptible
    from holdfast.predict.statistics import dump_statistics
    from holdfast.profile import profile as measure
    from holdfast.quantities import parse_time
    from holdfast.runtime.spark.start.prepare import prepare

    if quick and thorough:
        raise BadInputError("cannot go with --thorough", where="--quick", hint="leave one out")
    default = QUICK_S if quick else THOROUGH_S if thorough else DEFAULT_S
    seconds = default if duration is None else parse_time(duration, where="--for")
    if seconds <= 0:
        raise BadInputError("is no time to measure anything", where="--for", hint="say 60s")
    if out is not None and not out.resolve().parent.is_dir():
        raise BadInputError("its directory does not exist", where=str(out))
    pipeline = sound_pipeline(app, note)
    home = profile_path(app, pipeline.name)
    out = out or home
    _make_room(out)
    prepare(note)
    with interruptible():
        statistics = measure(app, seconds, quick=quick, thorough=thorough, say=note)
    text = dump_statistics(statistics)
    _write(out, text)
    if as_json:
        typer.echo(text, nl=False)
        return
    show(statistics)
    show_hinges(pipeline.topology(), statistics)
    given = "" if out == home else f" --stats {out}"
    typer.echo(f"written to {out}; now: holdfast plan {app}{given} --max-recovery 5s")


def _make_room(out: Path) -> None:
    """Measuring takes minutes: that it cannot be kept is said before."""
    try:
        out.parent.mkdir(exist_ok=True)
        allowed = os.access(out.parent, os.W_OK)
    except OSError:
        allowed = False
    if not allowed:
        raise BadInputError(
            "cannot be written", where=str(out), hint="-o FILE keeps the profile elsewhere"
        )


def _write(out: Path, text: str) -> None:
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(out)
    except OSError as error:
        raise BadInputError(
            f"cannot be written: {error.strerror}", where=str(out), hint="-o FILE writes elsewhere"
        ) from None


def show(statistics: Statistics) -> None:
    """Print operators and machine, each number with its certainty."""
    from rich.console import Console

    console = Console(highlight=False)
    console.print(operators_table(statistics))
    kept = state_table(statistics)
    if kept is not None:
        console.print(kept)
    console.print(machine_table(statistics.machine))
    found = statistics.operators.values()
    if any(one.cost is not None and one.cost.error > one.cost.value for one in found):
        console.print("[dim]a cost below its own uncertainty is lost in what a batch takes[/]")


def show_hinges(topology: Topology, statistics: Statistics) -> None:
    """Print which numbers the promise hangs on, and how sure each is."""
    from rich.console import Console

    from holdfast.predict.hinges import hinges

    found = hinges(topology, statistics)
    if not found:
        return
    table = _table("what a promised recovery hangs on", "", "moves it by", "sure to", "how")
    for one in found:
        table.add_row(one.name, f"{one.weight:.0%} of itself", f"±{one.doubt:.0%}", one.measure.how)
    table.columns[-1].justify = "left"
    Console(highlight=False).print(table)


def operators_table(statistics: Statistics) -> Table:
    """What flows through every operator."""
    names = ("rows/s in", "out per in", "cost per row", "bytes in", "bytes out", "skew")
    table = _table(statistics.pipeline, "operator", *names)
    for name, one in statistics.operators.items():
        table.add_row(
            name,
            _sure(one.input_rate, _number),
            _sure(one.selectivity, _number),
            _sure(one.cost, _time),
            _sure(one.tuple_size, _number),
            _sure(one.output_size, _number),
            _sure(one.skew, _number),
        )
    return table


def state_table(statistics: Statistics) -> Table | None:
    """What operators keep; None if none does."""
    names = ("state on disk", "grows by", "changelog", "snapshots")
    table = _table("", "state of", *names)
    for name, one in statistics.operators.items():
        if one.state_size is not None:
            table.add_row(
                name,
                _sure(one.state_size, _bytes),
                _sure(one.state_growth, _bytes, "/s"),
                _sure(one.state_change, _bytes, "/s"),
                str(one.state_size.samples),
            )
    return table if table.row_count else None


def machine_table(machine: MachineStatistics) -> Table:
    """One row per number, with how it was obtained."""
    from holdfast.predict.statistics import Affine

    table = _table(f"machine, {machine.cores} cores", "", "median", "p95", "samples", "how")
    for name in machine.__dataclass_fields__:
        value: Any = getattr(machine, name)
        title = name.replace("_", " ")
        if isinstance(value, Affine):
            _add(table, f"{title}, fixed", value.fixed)
            _add(table, f"{title}, per MB", value.per_byte, scale=1e6)
        elif name != "cores":
            _add(table, title, value, unit=_number if name == "spare_cost" else _time)
    table.columns[-1].justify = "left"
    return table


def _add(table: Table, title: str, measure: Measure, scale: float = 1.0, unit: Any = None) -> None:
    say = unit or _time
    table.add_row(
        title,
        say(measure.value * scale),
        say(measure.high * scale) if measure.high > measure.value else "",
        str(measure.samples or ""),
        measure.how,
    )


def _table(title: str, first: str, *names: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=name != "how")
    return table


def _sure(measure: Measure | None, say: Any, unit: str = "") -> str:
    """A number and how far off it may be, as a share of it."""
    if measure is None:
        return "-"
    text = f"{say(measure.value)}{unit}"
    if measure.error > 0 and measure.value <= measure.error:
        return f"< {say(measure.high)}{unit}"
    share = measure.error / measure.value if measure.value else 0.0
    return f"{text} ±{share:.0%}" if share >= 0.005 else text


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _time(seconds: float) -> str:
    from holdfast.quantities import format_time

    return format_time(seconds) if seconds >= 1e-6 or seconds == 0 else f"{seconds * 1e9:.3g} ns"


def _bytes(value: float) -> str:
    for limit, unit in _SIZES:
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return f"{value:.0f} B"
