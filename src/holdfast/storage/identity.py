"""Where identities come from, unless a test or a simulation hands them out."""

from __future__ import annotations

import uuid


def new_id() -> str:
    """32 hex digits that no other process makes."""
    return uuid.uuid4().hex
