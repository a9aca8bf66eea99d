"""Named places where a test may kill this process the way a power cut would.

`HOLDFAST_CRASH_AT=POINT[:UNIT[@BATCH[+]]]` kills the driver, its JVM and everything in its process
group with SIGKILL when the unit reaches the point, with `+` in that batch or a later one. Unset, it
costs one dictionary lookup.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass

VARIABLE = "HOLDFAST_CRASH_AT"

CRASH_POINTS = (
    "after-range-record",
    "after-data-files",
    "after-slice-record",
    "before-commit",
    "during-clone",
)
HANDOVER_POINTS = ("after-seal", "during-handover")
"""Those that are met only when a stream changes hands: a parent's, and a child's."""
RESTATE_POINTS = ("before-restating", "during-restating", "after-restating")
"""Those of a child whose state Spark lays out anew: when it is to, for every store, and when it has
and the checkpoint is not there yet."""
FORK_POINTS = ("before-branch", "after-branch", "before-tentative", "after-tentative")
"""Those that are met only in a fork: when a unit of it begins, and when its exporter delivers."""
REPAIR_POINTS = ("before-replay", "before-repair-record", "after-repair-record")
"""Those of whoever makes a lost slice again, by the unit whose slice it is."""
RESTART_POINT = "during-restart"
"""Met by who begins segments anew, after each of its puts: `during-restart:KIND@PUT`, the kind of
record and which put it was, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Where to crash, and who dies; carried to the processes that Spark starts for a unit."""

    spec: str = ""
    victims: tuple[int, ...] = ()
    """Process ids to kill: the driver's and its JVM's."""
    group: int = 0
    """Process group to kill, 0 for none."""

    def at(self, point: str, unit: str, number: int = -1) -> None:
        """Die here if asked to."""
        if not self.spec:
            return
        wanted, _, rest = self.spec.partition(":")
        name, _, batch = rest.partition("@")
        if wanted != point or (name and name != unit) or not _is_meant(batch, number):
            return
        for victim in self.victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        if self.group:
            os.killpg(self.group, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def _is_meant(batch: str, number: int) -> bool:
    if batch.endswith("+"):
        return number >= int(batch[:-1])
    return not batch or int(batch) == number


def crash_plan(jvm: int | None = None) -> Crash:
    """What the environment asks for; the group is killed only if this process leads it."""
    spec = os.environ.get(VARIABLE, "")
    if not spec:
        return Crash()
    known = (
        *CRASH_POINTS,
        *HANDOVER_POINTS,
        *RESTATE_POINTS,
        *FORK_POINTS,
        *REPAIR_POINTS,
        RESTART_POINT,
    )
    if spec.partition(":")[0] not in known:
        raise ValueError(f"{VARIABLE}={spec}: unknown point, one of {', '.join(known)}")
    own = os.getpid()
    leads = os.getpgid(0) == own
    # The JVM first: it must not outlive this process long enough to commit.
    victims = tuple(pid for pid in (jvm, None if leads else own) if pid)
    return Crash(spec=spec, victims=victims, group=own if leads else 0)
