"""Help in plain text, with options in groups.

Rich draws help in boxes, and takes longer to load than everything else that `--help` does; so
commands of this class write theirs as click does, one section per `rich_help_panel`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.core import TyperCommand

_FIRST = "Arguments"
_PLAIN = "Options"
_MANY = ("--failed", "--failed-domain", "--required", "--forbidden")


class GroupedCommand(TyperCommand):
    """A command whose options stand under the heading they were given."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {_FIRST: []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            panel = getattr(param, "rich_help_panel", None)
            plain = _FIRST if param.param_type_name == "argument" else _PLAIN
            sections.setdefault(panel or plain, []).append(record)
        # What no group claims comes last: it is what every command has.
        rest = sections.pop(_PLAIN, [])
        for title, records in (*sections.items(), (_PLAIN, rest)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class ManyValuesCommand(GroupedCommand):
    """Lets `--failed a b c` stand for `--failed a --failed b --failed c`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        spread: list[str] = []
        option: str | None = None
        first = False
        for arg in args:
            if arg.startswith("--") or (arg.startswith("-") and len(arg) > 1):
                option, first = (arg if arg in _MANY else None), True
                spread.append(arg)
                continue
            # A name that is a file is the topology, not one more value.
            if option is not None and not first and not Path(arg).exists():
                spread.append(option)
            elif not first:
                option = None
            first = False
            spread.append(arg)
        parsed: list[str] = super().parse_args(ctx, spread)
        return parsed
