"""Write docs/reference/cli.md from the command line itself.

Usage: python scripts/cli_reference.py [--check]

With --check nothing is written; the exit code is 1 when the page is not what would be written.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import typer

from holdfast.cli import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
HEAD = """# Command line

Made from the program itself by `scripts/cli_reference.py`; a test keeps it true. Exit codes: 0
done, 1 infeasible or a check failed, 2 bad input, 130 interrupted. `--json` prints one JSON
object. Times are written `5s`, `200ms`, `2min`; shares `0.4` or `40%`.
"""


def page() -> str:
    """The whole page."""
    group = typer.main.get_command(app)
    parts = [HEAD, _contents(group), *_sections(group, "holdfast")]
    return "\n".join(parts)


def _contents(group: Any) -> str:
    rows = ["| command | |", "|---|---|"]
    for path, command in _commands(group, ""):
        line = _first_line(command)
        rows.append(f"| [`{path}`](#holdfast-{path.replace(' ', '-')}) | {line} |")
    return "\n".join(rows) + "\n"


def _commands(group: Any, prefix: str) -> list[tuple[str, Any]]:
    """Every command below a group, groups left out, in the order of --help."""
    found = []
    context = _context(group, prefix or "holdfast")
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or getattr(command, "hidden", False):
            continue
        path = f"{prefix} {name}".strip()
        if hasattr(command, "list_commands"):
            found += _commands(command, path)
        else:
            found.append((path, command))
    return found


def _context(command: Any, name: str) -> Any:
    return command.context_class(command, info_name=name)


def _sections(group: Any, program: str) -> list[str]:
    shared = [parameter for parameter in group.params if parameter.name != "help"]
    parts = [f"## {program}\n\nBefore the command:\n", _options(group, shared)]
    for path, command in _commands(group, ""):
        parts += [f"## {program} {path}\n", _help(command), _usage(command, f"{program} {path}")]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [
            p
            for p in command.params
            if p.param_type_name == "option" and p.name != "help" and not p.hidden
        ]
        if arguments:
            parts.append(_arguments(arguments))
        if options:
            parts.append(_options(command, options))
    return parts


def _first_line(command: Any) -> str:
    return _escaped(_help(command).split("\n\n")[0].replace("\n", " ").strip())


def _help(command: Any) -> str:
    return inspect.cleandoc(command.help or "").split("\f")[0].strip() + "\n"


def _usage(command: Any, name: str) -> str:
    parts = [name]
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            shown = (parameter.metavar or parameter.name).upper().strip("{}[]")
            shown += "..." if parameter.nargs == -1 else ""
            parts.append(shown if parameter.required else f"[{shown}]")
    return f"```\n{' '.join(parts)} [OPTIONS]\n```\n"


def _arguments(arguments: list[Any]) -> str:
    rows = ["| argument | |", "|---|---|"]
    rows += [f"| `{a.name.upper()}` | {_escaped(a.help or '')} |" for a in arguments]
    return "\n".join(rows) + "\n"


def _options(command: Any, options: list[Any]) -> str:
    context = _context(command, command.name or "holdfast")
    rows = ["| option | | default |", "|---|---|---|"]
    for option in options:
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        rows.append(
            f"| {names}{_values(option, context)} | {_escaped(option.help or '')} "
            f"| {_default(option, context)} |"
        )
    return "\n".join(rows) + "\n"


def _values(option: Any, context: Any) -> str:
    """Where only a few words are allowed, these."""
    shown = str(option.display_type(context))
    return " " + _escaped(f"`{shown.strip('<>')}`") if "|" in shown else ""


def _default(option: Any, context: Any) -> str:
    shown = getattr(option, "show_default", None)
    if isinstance(shown, str):
        return f"`{shown}`"
    value = option.get_default(context)
    if option.required:
        return "required"
    if value is None or value is False or value in ((), []) or callable(value):
        return ""
    return f"`{value}`"


def _escaped(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not same:
            print(f"{PAGE} is not what the command line says: run scripts/cli_reference.py")
        return 0 if same else 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE}: {text.count('## holdfast ')} commands")
    return 0


if __name__ == "__main__":
    sys.exit(main())
