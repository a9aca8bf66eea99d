"""Quantities as people write them."""

from __future__ import annotations

import pytest

from holdfast.errors import BadInputError
from holdfast.quantities import format_time, parse_share, parse_time

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("5", "s", 5.0),
        ("5s", "s", 5.0),
        ("200ms", "s", 0.2),
        ("3 min", "s", 180.0),
        ("3s", "min", 0.05),
        ("1e-3", "min", 1e-3),
        (7, "min", 7.0),
        ("10 seconds", "s", 10.0),
    ],
)
def test_times(text, unit, value) -> None:
    """A time is given in the file's unit or carries its own."""
    assert parse_time(text, unit=unit) == pytest.approx(value)


def test_shares() -> None:
    """Shares are numbers or per cent."""
    assert parse_share("40%") == pytest.approx(0.4)
    assert parse_share("1.5") == 1.5


@pytest.mark.parametrize("text", ["", "fast", "-5s", "5 parsecs", "nan", "1e999", "5s5s"])
def test_bad_times_say_what_to_write(text) -> None:
    """What is no time is refused with an example."""
    with pytest.raises(BadInputError, match="write"):
        parse_time(text, where="--max-recovery")


def test_unknown_file_unit_is_not_guessed() -> None:
    """A unit that cannot be converted is refused rather than assumed."""
    with pytest.raises(BadInputError, match="bare number"):
        parse_time("5s", unit="ticks")
    assert parse_time("5", unit="ticks") == 5


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.0123, "12.3 ms"), (3.0, "3 s"), (600, "10 min"), (36000, "10 h")]
)
def test_times_for_people(seconds, said) -> None:
    """Times are printed with three figures and a fitting unit."""
    assert format_time(seconds) == said
