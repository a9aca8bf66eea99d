"""From a path in a file's structure to its line, for error messages only.

JSON is skipped value by value with the standard decoder, so that a fault in a file of 100,000
operators is found at the speed of reading it; YAML has to be composed a second time.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

_SPACE = re.compile(r"[ \t\r\n]*")


def line_of(text: str, format: str, path: tuple[str | int, ...]) -> int | None:
    """Line (from 1) of the deepest part of `path` that is in the text; None if unknown."""
    if not path:
        return None
    try:
        return _json_line(text, path) if format == "json" else _yaml_line(text, path)
    except (ValueError, yaml.YAMLError, IndexError, RecursionError):
        return None


def _yaml_line(text: str, path: tuple[str | int, ...]) -> int:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    node = yaml.compose(text, Loader=loader)
    line = node.start_mark.line
    for part in path:
        found = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    found, line = value, key.start_mark.line
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            found = node.value[part]
            line = found.start_mark.line
        if found is None:
            break
        node = found
    return int(line) + 1


def _json_line(text: str, path: tuple[str | int, ...]) -> int:
    decoder = json.JSONDecoder()
    at = _skip(text, 0)
    for part in path:
        found = (
            _json_item(text, at, part, decoder)
            if isinstance(part, int)
            else _json_key(text, at, part, decoder)
        )
        if found is None:
            break
        at = found
    return text.count("\n", 0, at) + 1


def _json_item(text: str, at: int, index: int, decoder: json.JSONDecoder) -> int | None:
    if text[at] != "[":
        return None
    at = _skip(text, at + 1)
    for _ in range(index):
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] != ",":
            return None
        at = _skip(text, at + 1)
    return at


def _json_key(text: str, at: int, key: str, decoder: json.JSONDecoder) -> int | None:
    if text[at] != "{":
        return None
    at = _skip(text, at + 1)
    while text[at] == '"':
        name, at = decoder.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if name == key:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] != ",":
            return None
        at = _skip(text, at + 1)
    return None


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
