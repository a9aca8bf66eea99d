"""`holdfast topology`: make, look at and check topology files.

`new` has one subcommand per generator, made from the generators' own table, so that each shape has
its own options and help; the table is only loaded when `new` runs.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from holdfast.errors import BadInputError

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.testing.generators import Generator
    from holdfast.topology.graph import Topology

app = typer.Typer(
    help="Make, show and check topology files.",
    no_args_is_help=True,
    rich_markup_mode=None,  # see holdfast.cli.help
    pretty_exceptions_enable=False,
)

_MOST_ROWS = 60


class _Shapes(TyperGroup):
    """One subcommand per generator, loaded when asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        from holdfast.testing.generators import GENERATORS

        return list(GENERATORS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        del ctx
        from holdfast.testing.generators import GENERATORS

        generator = GENERATORS.get(cmd_name)
        if generator is None:
            raise BadInputError(
                f"there is no shape {cmd_name!r}", hint=f"write one of {', '.join(GENERATORS)}"
            )
        return _command(generator)


new = typer.Typer(cls=_Shapes, help="Generate a topology of a given shape.", no_args_is_help=True)


@new.callback()
def _new() -> None:
    """Generate a topology of a given shape."""


app.add_typer(new, name="new")


def _command(generator: Generator) -> Any:
    """A typer command with an option for each parameter of the generator."""

    def run(out: Path | None, output: Literal["yaml", "json"] | None, **options: str) -> None:
        from holdfast.topology.codec import dump_topology

        topology = generator.parse(options)
        if output is None:
            output = "json" if out is not None and out.suffix == ".json" else "yaml"
        _write(out, dump_topology(topology, output))

    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [
        inspect.Parameter(
            parameter.name,
            keyword,
            default=parameter.shown_default,
            annotation=Annotated[
                str,
                typer.Option(
                    parameter.option,
                    help=parameter.help,
                    metavar="|".join(parameter.choices) or parameter.kind.upper(),
                ),
            ],
        )
        for parameter in generator.parameters
    ]
    shared = [
        inspect.Parameter(
            "out",
            keyword,
            default=None,
            annotation=Annotated[
                Path | None, typer.Option("--out", "-o", help="Write here instead of stdout.")
            ],
        ),
        inspect.Parameter(
            "output",
            keyword,
            default=None,
            annotation=Annotated[
                Literal["yaml", "json"] | None,
                typer.Option("--format", help="yaml or json; by default as --out ends, or yaml."),
            ],
        ),
    ]
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    single = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    single.command(generator.name, help=generator.help)(run)
    return typer.main.get_command(single)


@app.command()
def show(
    file: Annotated[str, typer.Argument(help="Topology file (YAML or JSON); - reads stdin.")],
    svg: Annotated[
        Path | None, typer.Option(help="Write the drawing as SVG here; - is stdout.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Mark this plan (the JSON of `holdfast plan`).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Summarise a topology and draw it, with a plan's marks if given."""
    from holdfast.draw import PlanMarks, draw_svg, plan_marks
    from holdfast.plan.document import load_plan
    from holdfast.topology.files import load_topology

    topology = load_topology(file)
    marks = PlanMarks() if plan is None else plan_marks(topology, load_plan(plan))
    if svg is not None:
        _write(None if str(svg) == "-" else svg, draw_svg(topology, marks))
        if str(svg) == "-":
            return
    if as_json:
        typer.echo(json.dumps(_summary(topology)))
    else:
        _print(topology, marks)


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="Topology file (YAML or JSON); - reads stdin.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say that a topology file is fine, or what is wrong in one line (exit code 2)."""
    from holdfast.topology.files import load_topology

    topology = load_topology(file)
    if as_json:
        typer.echo(json.dumps({"ok": True, **_counts(topology)}))
        return
    counts = _counts(topology)
    typer.echo(f"{file}: ok ({counts['operators']} operators, {counts['tasks']} tasks)")


def _write(out: Path | None, text: str) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInputError(
            f"cannot be written: {error.strerror}", where=str(out), hint="name another file"
        ) from None


def _counts(topology: Topology) -> dict[str, int]:
    depth = [1] * len(topology.operators)
    for i in topology.order:
        for j in topology.downstream[i]:
            depth[j] = max(depth[j], depth[i] + 1)
    return {
        "operators": len(topology.operators),
        "tasks": topology.task_count,
        "edges": len(topology.edges),
        "links": _link_count(topology),
        "sources": len(topology.sources),
        "sinks": len(topology.sinks),
        "joins": sum(operator.input == "correlated" for operator in topology.operators),
        "queries": len(topology.effective_queries),
        "depth": max(depth),
    }


def _link_count(topology: Topology) -> int:
    """Task links, counted without building them: full links of wide operators are millions."""
    from holdfast.topology.graph import iter_links

    total = 0
    for _, u, v, kind in iter_links(topology):
        a, b = topology.operators[u].parallelism, topology.operators[v].parallelism
        total += a * b if kind == "full" else max(a, b)
    return total


def _summary(topology: Topology) -> dict[str, Any]:
    from holdfast.topology.codec import topology_to_dict
    from holdfast.topology.rates import operator_rates

    rates = operator_rates(topology)
    return {
        **topology_to_dict(topology),
        "counts": _counts(topology),
        "input_rates": {
            operator.name: float(rate)
            for operator, rate in zip(topology.operators, rates.input, strict=True)
        },
    }


def _print(topology: Topology, marks: Any) -> None:
    from rich.console import Console

    from holdfast.draw import draw_text

    console = Console(highlight=False)
    counts = _counts(topology)
    console.print(f"[bold]{_plain(topology.name)}[/]", soft_wrap=True)
    line = ", ".join(_counted(key, n) for key, n in counts.items() if n)
    console.print(line, style="dim", soft_wrap=True)
    if marks.caption:
        console.print(_plain(marks.caption), soft_wrap=True)
    console.print()
    typer.echo(draw_text(topology, marks, width=max(console.width, 80)))
    console.print(_operators(topology))
    if len(topology.operators) > _MOST_ROWS:
        console.print(f"... and {len(topology.operators) - _MOST_ROWS} more (--json has all)")
    for query in topology.queries[:_MOST_ROWS]:
        said = f"query {query.name} reads {query.sink}, priority {query.priority:g}"
        console.print(_plain(said), soft_wrap=True)


def _counted(key: str, count: int) -> str:
    if key == "depth":
        return f"{count} layers deep" if count > 1 else "1 layer deep"
    word = {"links": "task links", "edges": "streams"}.get(key, key)
    if count == 1:
        word = "query" if word == "queries" else word.removesuffix("s")
    return f"{count} {word}"


def _operators(topology: Topology) -> Table:
    from rich.table import Table

    from holdfast.topology.graph import iter_links, per_operator
    from holdfast.topology.rates import operator_rates

    rates = operator_rates(topology)
    into: list[list[str]] = [[] for _ in topology.operators]
    for edge, _, v, kind in iter_links(topology):
        into[v].append(f"{edge.source} ({kind})")
    time, size = topology.unit.time, topology.unit.size
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("operator", overflow="fold")
    table.add_column("tasks", justify="right")
    table.add_column(f"in/{time}", justify="right")
    table.add_column(f"out/{time}", justify="right")
    table.add_column(f"state {size}", justify="right")
    table.add_column(f"reprocess {time}", justify="right")
    table.add_column("reads from", overflow="fold")
    for i, operator in enumerate(topology.operators[:_MOST_ROWS]):
        again = operator.reprocess_time
        reads = ", ".join(into[i][:6]) + (f", {len(into[i]) - 6} more" if len(into[i]) > 6 else "")
        table.add_row(
            _plain(operator.name),
            str(operator.parallelism),
            _rounded(rates.input[i]),
            _rounded(rates.output[i]),
            _rounded(per_operator(operator.state_size, how="sum")),
            "-" if again is None else f"{per_operator(again, how='max'):g}",
            _plain(("join of " if operator.input == "correlated" else "") + reads)
            or "[dim](source)[/]",
        )
    return table


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _plain(text: str) -> str:
    """Names may hold square brackets, which rich would read as markup."""
    from rich.markup import escape

    return escape(text)
