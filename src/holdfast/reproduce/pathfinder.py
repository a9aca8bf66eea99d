"""Figures 7 and 8 of Pathfinder, measured on this machine: what a failing path costs.

The paper: at 100 s an operator of the main path fails for 300 s, by memory (MEM), suspension (SLP)
or slowness (THR), four times each; statistics are polled every 15 s. Here the fault is shorter, and
statistics come with heartbeats.
"""

from __future__ import annotations

import statistics

from holdfast.reproduce.model import Bar, Box, Cell, Claim, Effort, Figure, Panel, Reproduction

STATED = (
    "figure 6: two sources, P1, P2, split of P3 | P6 | P4 and P5, P7, two sinks; work of table 1",
    "a fault 100 s after the start, for 300 s; 4 runs of each of MEM, SLP, THR",
)
ASSUMED = (
    "half of each n of table 1, 32 positions a second",
    "a fault lasts 6 s, after 10 s without one, MEM after 34 s; probes every 4 s",
    "MEM leaks 200 MB a second, THR takes 400 ms longer for every row, SLP stops the process",
)
KINDS = ("slp", "mem", "thr")
PAPER = {"slp": "around 30 s", "mem": "45 to 50 s", "thr": "varies much more than the others"}
"""Time to adapt as section 4.3 gives it."""
PAPER_BOXES = {"slp": (30.0, 30.0), "mem": (45.0, 50.0)}
"""Where that is a number, seconds from and to."""
PAPER_PHASES = (
    Bar(label="fault", start=0, end=300),
    Bar(label="no path", start=0, end=27),
    Bar(label="P6", start=27, end=340),
    Bar(label="P3", start=340, end=400),
)
"""Section 4.3: 27 s without a path, and the main one back 40 s after the end of the fault."""
POLLS = "statistics come with heartbeats, four a second; the paper polls every 15 s"


def figure_7(effort: Effort) -> Reproduction:
    """The phases of one run in which workers are suspended."""
    (run,) = effort.adapt(("slp",))
    ours = tuple(Bar(label=one.what, start=one.start_s, end=one.end_s) for one in run.phases)
    return Reproduction(
        paper="pathfinder",
        figure="7",
        title="Phases of a run in which the main path is suspended",
        stated=STATED,
        assumed=ASSUMED,
        columns=("phase", "from [s]", "to [s]"),
        rows=tuple((phase.what, phase.start_s, phase.end_s) for phase in run.phases),
        panels=(
            Panel(title="here", x_label="seconds since the fault", y_label="", bars=ours),
            Panel(
                title="the paper, as its text has it",
                x_label="seconds since the fault",
                y_label="",
                bars=PAPER_PHASES,
            ),
        ),
        claims=(
            Claim(
                paper="no path is active for about 27 s",
                source="section 4.3, figure 7",
                ours=f"{run.adapt_s:.2f} s to the first result of the next path",
                verdict="differs",
                why=POLLS,
            ),
            Claim(
                paper="the switch itself takes 0.39 s",
                source="section 4.3",
                ours=f"{run.switch_s + run.start_s:.2f} s from open breaker to first result",
                verdict="not comparable",
                why="the paper counts until the path is active, not until its first result",
            ),
            Claim(
                paper="three probes after the end of the failure, 40 s until the main path is back",
                source="section 4.3, figure 7",
                ours=f"{run.return_s:.2f} s after its end and the start of the good probe",
                verdict="differs",
                why="a probe runs on recorded input and is judged at once, it waits for no items",
            ),
        ),
        full=effort.full,
    )


def figure_8(effort: Effort) -> Reproduction:
    """Time to adapt by kind of fault."""
    runs = effort.adapt(KINDS * effort.pick(1, 4))
    rows: list[tuple[Cell, ...]] = [
        (run.kind.upper(), run.detect_s, run.switch_s, run.start_s, run.adapt_s, run.return_s)
        for run in runs
    ]
    by_kind = {kind: [run.adapt_s for run in runs if run.kind == kind] for kind in KINDS}
    return Reproduction(
        paper="pathfinder",
        figure="8",
        title="Time to adapt by kind of fault",
        stated=STATED,
        assumed=ASSUMED,
        columns=(
            "fault",
            "detected [s]",
            "on record [s]",
            "started [s]",
            "adapted [s]",
            "back [s]",
        ),
        rows=tuple(rows),
        panels=(
            Panel(
                title="time to adapt",
                x_label="fault",
                y_label="seconds",
                log_y=True,
                boxes=(
                    *(_box("here", kind, times) for kind, times in by_kind.items()),
                    *(_box("the paper", kind, list(ends)) for kind, ends in PAPER_BOXES.items()),
                ),
            ),
        ),
        claims=_claims(by_kind),
        full=effort.full,
    )


def _box(label: str, kind: str, times: list[float]) -> Box:
    low, middle, high = (
        statistics.quantiles(times, method="inclusive") if len(times) > 1 else times * 3
    )
    return Box(
        label=label,
        group=kind.upper(),
        quartiles=(low, middle, high),
        lowest=min(times),
        highest=max(times),
    )


def _claims(by_kind: dict[str, list[float]]) -> tuple[Claim, ...]:
    medians = {kind: statistics.median(times) for kind, times in by_kind.items()}
    times = tuple(
        Claim(
            paper=f"{kind.upper()}: {PAPER[kind]}",
            source="section 4.3, figure 8",
            ours=f"{medians[kind]:.2f} s in the median of {len(by_kind[kind])}",
            verdict="differs",
            why=POLLS,
        )
        for kind in KINDS
    )
    quickest = medians["slp"] == min(medians.values())
    return (
        *times,
        Claim(
            paper="SLP is detected the quickest",
            source="section 4.3",
            ours=", ".join(f"{kind.upper()} {value:.2f} s" for kind, value in medians.items()),
            verdict="holds" if quickest else "differs",
            why="" if quickest else "another kind was detected sooner here",
        ),
    )


FIGURES = (
    Figure(
        paper="pathfinder",
        figure="7",
        title="Phases of a run in which the main path is suspended",
        make=figure_7,
        measured=True,
    ),
    Figure(
        paper="pathfinder",
        figure="8",
        title="Time to adapt by kind of fault",
        make=figure_8,
        measured=True,
    ),
)
