"""What is normal for an operator, learned while it is sound, and when that is left.

The problem: bounds on processor time, memory or batch duration differ between operators and with
the load, and nobody knows them beforehand. The reading: time is cut into blocks, each with one load
and, per metric, one median. Blocks of sound times are kept per load level (powers of two of the
items a second), the last `keep` of each. A metric is abnormal in a block if it exceeds by `margin`
the largest value kept of its level and those above; an operator is, when the same metric was so in
`blocks` blocks in a row. Levels above count because one that fails takes less in, while what it
needs for more is an upper bound of what it needs for less.

**False alarms are bounded.** If the blocks of a level are exchangeable while the operator is sound
(in whatever order the load brings them), a new one is the largest of n + 1 with a chance of one in
n + 1, so `blocks` in a row are with at most 1/(n + 1) ... 1/(n + blocks), before the margin.
Nothing is judged that fewer than `least` blocks speak of: with 40 and 4 that is one in 3.2 million
blocks, nine days of blocks of a quarter of a second.

A block is learned `settle_s` after it was seen, if nothing abnormal was found meanwhile, so that a
fault which grows is not learned step by step. A leak that grows by less than the margin in that
time is learned as normal; it is for `Bounds`.

O(levels x keep) a block, O(1) otherwise; memory: levels x metrics x `keep` numbers an operator.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.health.nexus.history import History, Sample
from holdfast.health.nexus.rules import Rule

Metric: TypeAlias = Callable[[Sample], float | None]

METRICS: Mapping[str, Metric] = {
    "batch time": lambda x: x.batch_ms,
    "processor": lambda x: x.cpu,
    "memory": lambda x: None if x.memory_bytes is None else float(x.memory_bytes),
}
"""Not what waits: after a failure upstream much comes at once, and is nobody's fault here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilePolicy:
    """How normal is learned, and what is not."""

    block_s: float = 0.25
    least: int = 40
    """Blocks of a level and those above before anything in it is judged."""
    keep: int = 240
    """Blocks kept of each level: the last so many sound ones."""
    settle_s: float = 10.0
    """How long a block must be past without a finding before it counts as normal."""
    blocks: int = 4
    """Abnormal blocks in a row."""
    margin: Mapping[str, float] = field(
        default_factory=lambda: {
            "batch time": 2.0,
            "processor": 2.0,
            "memory": 0.5,
        }
    )
    """By how much the largest value ever learned must be exceeded, as a share of it."""
    floor: Mapping[str, float] = field(
        default_factory=lambda: {
            "batch time": 100.0,
            "processor": 0.2,
            "memory": 128.0 * 2**20,
        }
    )
    """Whatever was learned, so much counts as normal: of very little, three times as much is no
    failure."""


@dataclass(slots=True, kw_only=True)
class _Learned:
    """What is known of one operator."""

    levels: dict[tuple[str, int], deque[float]] = field(default_factory=dict)
    """Values of sound blocks, by metric and load level."""
    block: list[Sample] = field(default_factory=list)
    abnormal: dict[str, int] = field(default_factory=dict)
    """Abnormal blocks in a row, by metric."""
    why: str | None = None
    pending: deque[tuple[float, tuple[str, int], float]] = field(default_factory=deque)
    """When, what and how much: blocks that are not past for long enough to be learned."""


class Profile(Rule):
    """The rule that learns."""

    def __init__(self, policy: ProfilePolicy | None = None) -> None:
        self.policy = policy or ProfilePolicy()
        self._known: dict[str, _Learned] = {}

    @property
    def name(self) -> str:
        return "profile"

    def judge(self, operator: str, history: History) -> str | None:
        learned = self._known.setdefault(operator, _Learned())
        last = history.last
        if last is None or last.given == 0:
            return None  # what has not begun says nothing about what is normal
        if len(history) == 1:  # the process is another one
            learned.block, learned.abnormal, learned.why = [], {}, None
            learned.pending.clear()
        learned.block.append(last)
        if last.at - learned.block[0].at >= self.policy.block_s:
            learned.why = self._close_block(learned)
            learned.block = [last]
        return learned.why

    def learn(self, operator: str, history: History) -> None:
        learned, last = self._known.get(operator), history.last
        if learned is None or last is None:
            return
        while learned.pending and learned.pending[0][0] <= last.at - self.policy.settle_s:
            _, key, value = learned.pending.popleft()
            learned.levels.setdefault(key, deque(maxlen=self.policy.keep)).append(value)

    def forget(self, operator: str) -> None:
        self._known.pop(operator, None)

    def _close_block(self, learned: _Learned) -> str | None:
        first, *_, last = learned.block
        level = load_level((_load(last) - _load(first)) / (last.at - first.at))
        values: dict[str, float] = {}
        why: str | None = None
        for name, metric in METRICS.items():
            measured = [x for sample in learned.block if (x := metric(sample)) is not None]
            if not measured:
                continue
            value = values[name] = statistics.median(measured)
            most = self._most(learned, name, level)
            if most is None or value <= most:
                learned.abnormal.pop(name, None)
                continue
            learned.abnormal[name] = learned.abnormal.get(name, 0) + 1
            if learned.abnormal[name] >= self.policy.blocks:
                why = why or f"{name} {value:.4g}, at this load at most {most:.4g} is normal"
        if learned.abnormal:
            # Not learned, nor what led to it if it is a finding.
            if why is not None:
                learned.pending.clear()
            return why
        learned.pending += [(last.at, (name, level), value) for name, value in values.items()]
        return None

    def _most(self, learned: _Learned, name: str, level: int) -> float | None:
        """The most that is normal at a load; None: not known."""
        kept = [
            value
            for (metric, other), values in learned.levels.items()
            if metric == name and other >= level
            for value in values
        ]
        if len(kept) < self.policy.least:
            return None
        return max(*kept, self.policy.floor[name]) * (1 + self.policy.margin[name])


def load_level(rate: float) -> int:
    """Level of a load, items a second: 0 for up to one, then a power of two each."""
    return max(0, int(rate)).bit_length()


def _load(sample: Sample) -> int:
    return sample.taken if sample.rows is None else sample.rows
