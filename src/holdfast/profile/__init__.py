"""Measuring a pipeline and its machine: where the numbers of a statistics file come from."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.predict.statistics import Statistics


def profile(
    app: str,
    seconds: float,
    *,
    quick: bool = False,
    thorough: bool = False,
    say: Callable[[str], None] | None = None,
) -> Statistics:
    """Run an application for so long and measure it and the machine; see docs/concepts/profile.md.

    What concerns the machine comes from an earlier profile if there is one; `quick` never measures
    it, `thorough` always does, and takes more care. Progress is told to `say`.
    """
    from holdfast.profile.launch import measure  # noqa: PLC0415 - estimates need no Spark

    return measure(app, seconds, quick=quick, thorough=thorough, say=say or (lambda _: None))
