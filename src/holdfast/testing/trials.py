"""A pipeline run on this machine, broken on purpose and measured from outside: what is asked.

`trial_runs.run_trial` carries a trial out. Values apart from it, so that those who only plan
trials, or make up their outcome in tests, load no run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run, and what happens to it; operators are named by the segments they end."""

    app: str
    """The application, as text; its pipeline is `pipeline`."""
    homes: tuple[tuple[str, ...], ...]
    """Segments that share a node, one group a node."""
    watched: tuple[str, ...]
    """Segments whose recovery and CPU are measured."""
    replicate: tuple[str, ...] = ()
    """Segments with a hot follower, each on a node of its own."""
    batch_epochs: tuple[tuple[str, int], ...] = ()
    """Epochs that a batch of an operator's segment spans, if not one."""
    kills: tuple[tuple[str, ...], ...] = ()
    """One failure after another: the segments whose nodes are killed at once."""
    scales: tuple[tuple[str, int], ...] = ()
    """Segments with the shards they get, one change after another, before the first kill."""
    restarts: int = 0
    """How often everything is killed and begun anew, after the last kill."""
    repartition: int = 0
    """Keys of the state that Spark repartitions offline when the run has ended, to compare with; 0:
    it does not."""
    watch_s: float = 0.0
    """How long it is watched what goes over the log, seconds, after the scaling; 0: it is not."""
    trim_every: int = 0
    """Batches of a unit between two trims; 0: as usual."""
    cpu_s: float = 0.0
    """How long CPU is measured, seconds, before the first kill; 0: it is not."""
    behind_s: float = 0.0
    """Seconds of input that wait when the run begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What went over the log while it was watched."""

    seconds: float
    acks_bytes: int
    """Of what says how far everyone has come, so that what was read can go."""
    data_bytes: int
    """Of the rows published."""
    kept_bytes: int
    """Of the slices of the first watched segment, when they were most."""
    delay_s: float
    """From when a slice of the last watched segment was due until it was there, the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a trial showed."""

    recovery: tuple[Mapping[str, float], ...] = ()
    """Per failure and watched segment, seconds until its next slice: from the kill, or from when
    that slice was due if that was later."""
    traffic: Traffic | None = None
    restarts: tuple[float, ...] = ()
    """Per restart of everything, seconds until the next slice of the last watched segment, as
    above."""
    repartition_s: float | None = None
    """From the stop of Spark's own query to its first batch with twice the partitions."""
    handovers: tuple[tuple[int, float, float], ...] = ()
    """Per change of shards: how many there were then, when it was asked for, seconds on the clock
    of `delays`, and the pause between slices of the old shape and the new, beyond the usual."""
    delays: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    """Per watched segment, while it was scaled: when a slice was due, and how long after that all
    shards had published it."""
    cpu: Mapping[str, float] = field(default_factory=dict)
    """Per watched segment, cores that its node kept busy."""
    catch_up_s: float | None = None
    """From the first batch of the last watched segment until it had worked off what waited."""
    catch_up_input_s: float | None = None
    """Seconds of input that it worked off in that time."""


Lab: TypeAlias = Callable[[Trial], Measured]
"""Carries trials out."""
