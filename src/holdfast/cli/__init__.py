"""The command `holdfast`.

Start-up must stay quick, so a command is imported when it is asked for (holdfast.cli.commands), and
imports what it needs when it runs. Exit codes: 0 done, 1 infeasible or a check failed, 2 bad input,
130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from holdfast import __version__
from holdfast.cli.commands import Commands
from holdfast.errors import BadInputError, CheckFailedError, HoldfastError

INTERRUPTED = 130

app = typer.Typer(
    name="holdfast",
    cls=Commands,
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
    except SystemExit as ended:
        # The same, noticed by rich, whose exit code 1 would mean "infeasible" here.
        sys.exit(0 if isinstance(ended.__context__, BrokenPipeError) else ended.code)
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
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
            print(error, file=sys.stderr)  # noqa: T201
            sys.exit(2)
        usage = _usage_line(error)
        if usage is None:
            raise
        sys.exit(_say(usage, 2))
    if code == INTERRUPTED:  # what typer makes of an interrupt that nobody caught
        _say("interrupted", code)
    sys.exit(code if isinstance(code, int) else 0)


def _extra(module: str) -> str | None:
    """The extra of this package that brings a module; None: none does."""
    from holdfast.cli.doctor import EXTRAS

    root = module.partition(".")[0]
    found = [extra for extra, names in EXTRAS.items() if root in names]
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
    told = str(formatted()).replace("Value error, ", "")
    hint = BadInputError(told.rstrip("."), hint="see --help")
    return str(hint)
