"""Text widths without a font at hand.

Advance widths of Helvetica and Arial, in thousandths of the size, rounded into groups; system
fonts are wider (DejaVu, the fallback on many machines, by 15 percent and more in bold), hence the
allowance: text may come out narrower than measured, hardly ever wider.
"""

from __future__ import annotations

import unicodedata

_GROUPS = {
    "ijl'|": 222,
    " .,:;!/\\ftI[]": 278,
    "r-()`": 333,
    '"*': 370,
    "csvxyzkJ": 500,
    "abdeghnopqu0123456789L#$?_": 556,
    "FTZ+<=>~": 600,
    "ABEKPSVXY&": 667,
    "CDHNRUw": 722,
    "GOQ": 778,
    "mM": 833,
    "W%@": 944,
}
_WIDTHS = {char: width for chars, width in _GROUPS.items() for char in chars}
_ALLOWANCE = 1.15


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width of a line of text at a font size, in the same unit."""
    total = 0.0
    for char in text:
        if unicodedata.combining(char):
            continue
        wide = unicodedata.east_asian_width(char) in "WF"
        total += 1000 if wide else _WIDTHS.get(char, 600)
    return total / 1000 * size * _ALLOWANCE * (1.12 if bold else 1.0)


def shorten(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """The text, or its beginning and an ellipsis that fit."""
    if text_width(text, size, bold=bold) <= room:
        return text
    kept = text
    while kept and text_width(kept + "…", size, bold=bold) > room:
        kept = kept[:-1]
    return kept.rstrip() + "…"
