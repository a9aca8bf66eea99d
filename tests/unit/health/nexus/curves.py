"""Generated statistics of an operator: a queue with a varying load, and faults at a time."""

import math
import random
from dataclasses import dataclass

from holdfast.health.nexus.history import Sample

BEAT_S = 0.25
MB = 2**20


@dataclass
class Curve:
    """One operator, step by step; items are rows."""

    seed: int
    rate: float = 400.0
    """Mean arrivals a second; they swing by half, with bursts of three times as much."""
    capacity: float = 4000.0
    """Rows a second that it can process."""
    fault: str = ""
    """sleep, throttle, leak, error or nothing."""
    fault_at: float = math.inf

    def samples(self, until_s):
        rng = random.Random(self.seed)
        swing_s = rng.uniform(60, 600)
        arrived = taken = given = errors = 0.0
        batch_ms, cpu = 50.0, 0.1
        memory = 300 * MB
        burst_until = 0.0
        now = 0.0
        while now < until_s:
            now += BEAT_S * rng.uniform(0.8, 1.4)
            failing = now >= self.fault_at
            if rng.random() < 0.002:
                burst_until = now + rng.uniform(1, 10)
            load = self.rate * (1 + 0.5 * math.sin(2 * math.pi * now / swing_s))
            load *= 3.0 if now < burst_until else 1.0
            arrived += max(0.0, rng.gauss(load, load / 5)) * BEAT_S
            capacity = self.capacity * rng.uniform(0.7, 1.0)
            if failing and self.fault == "sleep":
                capacity = 0.0
            if failing and self.fault == "throttle":
                capacity = self.rate / 4
            # What came during the last batch waits for the next one.
            batch = min(arrived - taken, capacity * BEAT_S)
            taken += batch
            if batch >= 1 and not (failing and self.fault == "throttle" and rng.random() < 0.75):
                given += 1
                batch_ms = 30 + 1000 * batch / capacity * rng.uniform(0.9, 1.3)
            if failing and self.fault == "throttle":
                batch_ms = max(batch_ms, 1000.0)
            cpu = 0.02 + batch / BEAT_S / self.capacity * rng.uniform(0.8, 1.3)
            memory = 300 * MB + 40 * MB * rng.random() + 2e4 * batch
            if failing and self.fault == "leak":
                memory += (now - self.fault_at) * 250 * MB
            if failing and self.fault == "error":
                errors += rng.random() < 0.5
            yield Sample(
                at=now,
                waiting=int(arrived - taken),
                arrived=int(arrived),
                taken=int(taken),
                given=int(given),
                errors=int(errors),
                cpu=cpu,
                memory_bytes=int(memory),
                batch_ms=batch_ms,
            )


def first_finding(nexus, curve, until_s):
    """The first that is found, or None."""
    for sample in curve.samples(until_s):
        found = nexus.observe("op", sample)
        if found:
            return found[0]
    return None
