"""The command `holdfast`.

Start-up must stay quick, so a command imports what it needs when it runs. Exit codes: 0 done,
1 infeasible or a check failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from holdfast import __version__
from holdfast.cli import chaos as chaos_command
from holdfast.cli import check as check_command
from holdfast.cli import coordinator as coordinator_commands
from holdfast.cli import demo as demo_command
from holdfast.cli import doctor as doctor_command
from holdfast.cli import init as init_command
from holdfast.cli import log as log_command
from holdfast.cli import logs as logs_command
from holdfast.cli import paths as paths_command
from holdfast.cli import plan as plan_command
from holdfast.cli import profile as profile_command
from holdfast.cli import prove as prove_command
from holdfast.cli import reproduce as reproduce_command
from holdfast.cli import run as run_command
from holdfast.cli import scale as scale_command
from holdfast.cli import topology as topology_commands
from holdfast.cli import verify as verify_command
from holdfast.cli import web as web_command
from holdfast.cli.help import GroupedCommand, ManyValuesCommand
from holdfast.errors import BadInputError, CheckFailedError, HoldfastError

INTERRUPTED = 130

app = typer.Typer(
    name="holdfast",
    help="Streaming pipelines on Spark that survive failures, by plan and by proof.",
    no_args_is_help=True,
    rich_markup_mode=None,  # see holdfast.cli.help
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole traceback of an error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Options that every command has."""
    del version
    if debug:
        os.environ["HOLDFAST_DEBUG"] = "1"


app.command("plan", cls=ManyValuesCommand)(plan_command.plan)
app.add_typer(topology_commands.app, name="topology")
for _command in (
    init_command.init,
    doctor_command.doctor,
    check_command.check,
    run_command.run,
    coordinator_commands.status,
    coordinator_commands.nodes,
    logs_command.logs,
    log_command.log,
    coordinator_commands.kill,
    coordinator_commands.retry,
    coordinator_commands.stop,
    paths_command.paths,
    scale_command.scale,
    web_command.web,
    chaos_command.chaos,
    verify_command.verify,
    profile_command.profile,
    prove_command.prove,
    reproduce_command.reproduce,
    demo_command.demo,
):
    app.command(_command.__name__, cls=GroupedCommand)(_command)


def main() -> NoReturn:
    """Run the command line; every expected error becomes one line and an exit code."""
    try:
        # Without standalone mode usage errors are raised here too, and Exit becomes its code.
        code = app(standalone_mode=False)
    except HoldfastError as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        sys.exit(_say(str(error), 1 if isinstance(error, CheckFailedError) else 2))
    except KeyboardInterrupt:
        sys.exit(_say("interrupted", INTERRUPTED))
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except ModuleNotFoundError as error:
        extra = _extra(error.name or "")
        if extra is None or os.environ.get("HOLDFAST_DEBUG"):
            raise
        sys.exit(_say(f"this needs {error.name}; pip install 'holdfast[{extra}]'", 2))
    except OSError as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        sys.exit(_say(_system_line(error), 2))
    except Exception as error:
        if type(error).__name__ == "Abort":
            sys.exit(_say("interrupted", INTERRUPTED))
        usage = _usage_line(error)
        if usage is None:
            raise
        sys.exit(_say(usage, 2))
    if code == INTERRUPTED:  # what typer makes of an interrupt that nobody caught
        _say("interrupted", code)
    sys.exit(code if isinstance(code, int) else 0)


def _extra(module: str) -> str | None:
    """The extra of this package that brings a module; None: none does."""
    root = module.partition(".")[0]
    found = [extra for extra, names in doctor_command.EXTRAS.items() if root in names]
    return found[0] if found else None


def _say(line: str, code: int) -> int:
    for one in line.splitlines():
        print(f"holdfast: {one}", file=sys.stderr)  # noqa: T201
    return code


def _system_line(error: OSError) -> str:
    """What the operating system refused, and of which file."""
    reason = error.strerror or str(error) or type(error).__name__
    hint = "holdfast --debug shows where" if error.filename is None else ""
    return str(BadInputError(reason, where=str(error.filename or ""), hint=hint))


def _usage_line(error: Exception) -> str | None:
    """The message of a click usage error, whichever click typer was built with."""
    formatted = getattr(error, "format_message", None)
    if formatted is None:
        return None
    hint = BadInputError(str(formatted()).rstrip("."), hint="see --help")
    return str(hint)
