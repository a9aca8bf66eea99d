"""Which module has which command; a module is imported when its command is asked for.

A start pays for its own command alone: to import all of them and to build all their options took
longer than many a command.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from holdfast.cli.help import GroupedCommand, ManyValuesCommand

# In the order of --help. A module has a function of that name, or a group of commands as `app`.
MODULES = {
    "plan": "plan",
    "init": "init",
    "doctor": "doctor",
    "check": "check",
    "run": "run",
    "status": "coordinator",
    "nodes": "coordinator",
    "logs": "logs",
    "log": "log",
    "kill": "coordinator",
    "retry": "coordinator",
    "stop": "coordinator",
    "paths": "paths",
    "scale": "scale",
    "web": "web",
    "chaos": "chaos",
    "verify": "verify",
    "profile": "profile",
    "prove": "prove",
    "reproduce": "reproduce",
    "demo": "demo",
    "topology": "topology",
}


class Commands(TyperGroup):
    """The group of all commands; it knows their names, and builds the one that is asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        names: dict[str, Any] = dict.fromkeys(MODULES)
        self.commands = {**names, **self.commands}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        return _built(cmd_name) if found is None and cmd_name in MODULES else found


@cache
def _built(name: str) -> Any:
    module = import_module(f"holdfast.cli.{MODULES[name]}")
    if hasattr(module, "app"):
        return typer.main.get_group(module.app)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=ManyValuesCommand if name == "plan" else GroupedCommand)(
        getattr(module, name)
    )
    return typer.main.get_command(alone)
