"""Files that people give us: found, sized up and read, with one clear line when unusable."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import BadInputError

if TYPE_CHECKING:
    from pydantic import ValidationError

MAX_BYTES = 256 * 1000 * 1000
"""Larger files are refused before they are read."""


def read_input(path: str | Path) -> bytes:
    """The bytes of an input file of bearable size."""
    origin, path = str(path), Path(path)
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise BadInputError("is a directory", where=origin, hint="name a file in it")
        if not stat.S_ISREG(info.st_mode):
            raise BadInputError("is not a regular file", where=origin, hint="name a file")
        check_size(info.st_size, origin)
        return path.read_bytes()
    except FileNotFoundError:
        raise BadInputError("there is no such file", where=origin, hint="check the path") from None
    except PermissionError:
        raise BadInputError("may not be read", where=origin, hint="check its permissions") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInputError(f"cannot be read: {reason}", where=origin) from None


def check_size(size: int, origin: str) -> None:
    """Refuse what is too large to be meant."""
    if size > MAX_BYTES:
        raise BadInputError(
            f"is larger than {MAX_BYTES // 1_000_000} MB",
            where=origin,
            hint="a file this large is surely a mistake",
        )


def decode(raw: bytes, origin: str) -> str:
    """The text of a file."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInputError("is not text", where=origin, hint="save it as UTF-8") from None


def parse_json(text: str, *, origin: str, hint: str) -> Any:
    """A JSON text; `hint` says what writes such files."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"is not JSON: {error.msg.lower()}", where=f"{origin}:{error.lineno}", hint=hint
        ) from None
    except RecursionError:
        raise BadInputError("is nested too deeply", where=origin, hint=hint) from None


def refusal(error: ValidationError, origin: str, *, unknown: str) -> BadInputError:
    """The first thing pydantic found wrong, in our words.

    `unknown` is the hint where a field is not known.
    """
    problem = error.errors(include_input=False, include_url=False)[0]
    path = ".".join(str(part) for part in problem["loc"])
    match problem["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            what, hint = "unknown field", unknown
        case "missing":
            path, _, last = path.rpartition(".")
            what, hint = f"the field {last!r} is missing", f"write {last}"
        case _:
            message = problem["msg"].replace("Input should be", "should be")
            message = re.sub(r"\ba valid (?=[aeiou])", "an ", message).replace("valid ", "")
            what, hint = message[:1].lower() + message[1:], ""
    return BadInputError(what, where=f"{origin}: {path}" if path else origin, hint=hint)
