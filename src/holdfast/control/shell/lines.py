"""A line of JSON: how everything that leaves the coordinator is sent and kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_line(data: Mapping[str, Any]) -> bytes:
    """One line of JSON, without a newline inside or at its end."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
