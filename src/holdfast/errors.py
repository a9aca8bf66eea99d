"""The one root of Holdfast's errors.

A message says what is wrong, where, and what to do instead. The command line prints it as one
line; attributes keep the parts apart for programs. Infeasible plans are results, not errors.
"""

from __future__ import annotations

from collections.abc import Iterable


class HoldfastError(Exception):
    """Anything Holdfast raises on purpose."""


class BadInputError(HoldfastError):
    """A file, an option or a pipeline that cannot be used as it is (exit code 2)."""

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        self.what = what
        """What is wrong."""
        self.where = where
        """The file with line, the option or the operator it was found at; empty if unknown."""
        self.hint = hint
        """What to write instead; empty if `what` says so already."""
        super().__init__(what, where, hint)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text


class BadInputsError(BadInputError):
    """Several mistakes found at once, one line each (exit code 2)."""

    def __init__(self, problems: Iterable[BadInputError]) -> None:
        self.problems = tuple(problems)
        """At least one, in the order in which they should be looked at."""
        first = self.problems[0]
        super().__init__(first.what, where=first.where, hint=first.hint)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def in_short(traceback: str | None) -> str:
    """The last line of a traceback, of our own errors what they say."""
    last = (traceback or "").rstrip().rpartition("\n")[2]
    return last.removeprefix(f"{__name__}.BadInputError: ")


class CheckFailedError(HoldfastError):
    """Something that was to be proved did not hold (exit code 1)."""


class CorruptLogError(HoldfastError):
    """A record or slice file is torn or altered; never skipped, always named."""

    def __init__(self, what: str, *, path: str) -> None:
        self.what = what
        self.path = path
        super().__init__(what, path)

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"
