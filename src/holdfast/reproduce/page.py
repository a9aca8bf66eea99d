"""A reproduction as a page: settings, table, plots, and the paper's claims beside ours."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.reproduce.model import Cell, Reproduction, said
from holdfast.reproduce.papers import PAPERS


def shown(cell: Cell) -> str:
    """A value of a table as people read it."""
    match cell:
        case None:
            return "-"
        case float():
            if cell == int(cell) and abs(cell) < 1e6:
                return f"{cell:.0f}"
            return f"{cell:.3g}" if abs(cell) < 1 or abs(cell) >= 1000 else f"{cell:.1f}"
        case _:
            return str(cell)


def markdown(made: Reproduction, pictures: Sequence[str]) -> str:
    """The page; `pictures` are file names beside it."""
    paper, name = PAPERS[made.paper], said(made.figure)
    lines = [
        f"# {made.title}",
        "",
        f"{name[0].upper()}{name[1:]} of {paper.authors}, *{paper.title}*, {paper.where}, "
        f"{paper.year}.",
        f"Made in {'full' if made.full else 'a quick sample'} by "
        f"`holdfast reproduce {made.paper} {made.figure}{' --full' if made.full else ''}`.",
        "",
        "## The paper and this",
        "",
        *_table(
            ("the paper", "where", "here", "verdict", "what differs and why"),
            [(c.paper, c.source, c.ours, c.verdict, c.why) for c in made.claims],
        ),
        "",
        *(f"![{made.title}]({picture})" for picture in pictures),
        "",
        "## Numbers",
        "",
        *_table(made.columns, made.rows),
        "",
        "## Settings",
        "",
        "Stated in the paper:",
        "",
        *(f"- {line}" for line in made.stated),
    ]
    if made.assumed:
        lines += ["", "Assumed here:", "", *(f"- {line}" for line in made.assumed)]
    return "\n".join(lines) + "\n"


def index(made: Sequence[Reproduction]) -> str:
    """All pages of a folder, with what holds."""
    rows = []
    for item in made:
        verdicts = [claim.verdict for claim in item.claims]
        rows.append(
            (
                item.paper,
                item.figure,
                f"[{item.title}]({item.name}.md)",
                sum(v == "holds" for v in verdicts),
                sum(v == "partly" for v in verdicts),
                sum(v == "differs" for v in verdicts),
                sum(v == "not comparable" for v in verdicts),
            )
        )
    columns = ("paper", "figure", "", "holds", "partly", "differs", "not comparable")
    return "\n".join(["# The papers' figures, made again", "", *_table(columns, rows)]) + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    cells = [[shown(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(row) + " |" for row in cells),
    ]
