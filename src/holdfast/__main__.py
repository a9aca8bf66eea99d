"""The program: `holdfast`, and `python -m holdfast`."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The command line; Ctrl-C while it is still being imported is no traceback either."""
    try:
        from holdfast.cli import main as command_line  # noqa: PLC0415 - see above
    except KeyboardInterrupt:
        sys.stderr.write("holdfast: interrupted\n")
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
