"""Which part of a pipeline a loss concerns: what goes on without it, and above which sinks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping


class Concern:
    """Answers by segments, of the graph of what each one reads."""

    def __init__(
        self, reads: Mapping[str, tuple[str, ...]], priorities: Mapping[str, float]
    ) -> None:
        """Args:
        reads: segment to the segments that it reads, upstream first.
        priorities: sink to what its results are worth, 1 where it is not said.
        """
        self._reads = reads
        read = {name for names in reads.values() for name in names}
        self.sinks = tuple(name for name in reads if name not in read)
        """Segments that nobody reads, upstream first."""
        self.worth = dict.fromkeys(reads, 0.0)
        """Segment to the highest priority of a sink that needs it."""
        self._serves: dict[str, set[str]] = {name: set() for name in reads}
        for name in self.sinks:
            self.worth[name] = priorities.get(name, 1.0)
            self._serves[name].add(name)
        for name, inputs in reversed(list(reads.items())):
            for one in inputs:
                self.worth[one] = max(self.worth.get(one, 0.0), self.worth[name])
                self._serves.setdefault(one, set()).update(self._serves[name])

    def downstream(self, lost: Iterable[str]) -> set[str]:
        """Segments that read what some make, and all behind them that are worth it."""
        made, found = set(lost), set[str]()
        for name, read in self._reads.items():
            if self.worth[name] and not (made | found).isdisjoint(read):
                found.add(name)
        return found

    def covers(self, due: Iterable[str], down: Iterable[str]) -> set[str]:
        """What goes on without some segments that are due: above their sinks, also what others
        concern that are down.
        """
        concerned = self.downstream(due)
        sinks = concerned.intersection(self.sinks)
        return concerned | {
            name for name in self.downstream(down) if not sinks.isdisjoint(self._serves[name])
        }

    def uncovered(
        self, due: Iterable[str], silenced: Collection[str], covered: Collection[str]
    ) -> str:
        """What more than is covered would go on without some segments; empty: nothing.

        What has no input left is not missed: those who read it leave it out.
        """
        more = self.downstream(due).difference(covered)
        if not more.isdisjoint(self.sinks):
            return "more sinks"
        mute = self.mute(silenced)
        return "more than it covers" if more - mute else ""

    def mute(self, silenced: Collection[str]) -> set[str]:
        """Segments that give nothing: silenced ones, and those all of whose inputs are mute."""
        found: set[str] = set()
        for name, read in self._reads.items():
            if name in silenced or (read and found.issuperset(read)):
                found.add(name)
        return found
