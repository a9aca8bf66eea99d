"""What a part of the state says to a fact that cannot follow from it."""

from __future__ import annotations


class Illegal(Exception):  # noqa: N818 - never leaves the state, which tells the story with it
    """Why a fact is illegal."""


def expect(holds: bool, why: str) -> None:
    if not holds:
        raise Illegal(why)
