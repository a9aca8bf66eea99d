"""What the records of a run say, for a person: streams, who carries them, units, floors, damage.

Everything is read as units read it, and nothing is written. A record that is torn or altered is
named, and what depends on it is left out rather than guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

from holdfast.deployment import Deployment, fork_number
from holdfast.errors import CorruptLogError, HoldfastError
from holdfast.rundir.layout import member, record_folder
from holdfast.rundir.records import decode_at
from holdfast.runtime.log.slicelog import SliceLog
from holdfast.runtime.log.wiring import DeploymentWiring, shared_streams
from holdfast.streams.floors import Floors
from holdfast.streams.fork import find_fork
from holdfast.streams.handover import Birth
from holdfast.streams.records import Branch, ForkEnd, Range, Seal, Slice, Turn, change_of, stream_of
from holdfast.streams.steps import (
    FORK_ENDS,
    FORKS,
    RESTARTS,
    TERMS,
    Get,
    Newest,
    Steps,
    branches,
    changes,
    ranges,
    slices,
)

T = TypeVar("T")

_PLACES = {
    "streams": ("changes", "closings"),
    "units": ("ranges", "slices", "skips", "repairs", "branch"),
}
_FLOORS = ("ranges-floor", "slices-floor")
_UNIT = re.compile(r".+\.\d+#\d+")
MOST_GAPS = 16
"""Missing records of one folder that are named."""


class Survey:
    """Looks at the records of one run."""

    def __init__(
        self,
        log: SliceLog,
        deployment: Deployment,
        *,
        keep_input: bool = False,
        levels: int = 1,
    ) -> None:
        sources = [item.name for item in deployment.segments if item.kind == "source"]
        self._log = log
        self._deployment = deployment
        self._untrimmed = sources if keep_input else []
        self._floors = Floors(
            DeploymentWiring(deployment=deployment, kept=self._untrimmed),
            shared=shared_streams(deployment),
            levels=levels,
        )
        self.trouble: list[str] = []
        """What could not be told because of a damaged record, in words."""

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        damaged = self.damaged()
        streams = [self.stream(name) for name in self._names()]
        units = [
            self.unit(child["unit"]) for stream in streams for child in _children(stream["changes"])
        ]
        return {
            "streams": streams,
            "units": units,
            "restarts": self.restarts(),
            "forks": self.forks(),
            "damaged": damaged,
            "trouble": list(dict.fromkeys(self.trouble)),
        }

    def restarts(self) -> list[dict[str, Any]]:
        """What was begun anew, added or cut otherwise when the run was started again."""
        found = []
        newest = self._log.records.execute(Newest(RESTARTS))
        for number in range(newest + 1):
            record = self._ask(self._floors.find_restart(number))
            if record is not None:
                found.append(
                    {
                        "number": number,
                        "streams": [
                            {
                                "stream": item.stream,
                                "start": item.start,
                                "since": item.since,
                                "children": len(item.children),
                                "state_of": [unit for unit, _ in item.state],
                            }
                            for item in record.changes
                        ],
                        "carried_out": self._ask(self._floors.is_carried_out(number)),
                    }
                )
        return found

    def forks(self) -> list[dict[str, Any]]:
        """What has gone on without an input; units of forks that are over may be gone."""
        found = []
        for number in range(1, self._log.records.execute(Newest(FORKS)) + 1):
            record = self._ask(find_fork(number))
            if record is not None:
                end = self._look(partial(self._log.records.execute, Get(FORK_ENDS, number)))
                found.append(
                    {
                        "fork": number,
                        "silent": list(record.silent),
                        "reason": record.reason,
                        "ended": end.reason if isinstance(end, ForkEnd) else None,
                        "units": [self._forked(unit) for unit in record.units],
                    }
                )
        return found

    def _forked(self, unit: str) -> dict[str, Any]:
        branch = self._look(partial(self._log.records.execute, Get(branches(unit), 0)))
        batch = self._look(partial(self._log.newest_batch, unit))
        newest = self._newest(unit, batch)
        return {
            "unit": unit,
            "after": branch.epoch if isinstance(branch, Branch) else None,
            "batch": batch,
            "epoch": newest.upto if newest is not None else None,
            "left_out": list(newest.left_out) if newest is not None else [],
        }

    def stream(self, name: str) -> dict[str, Any]:
        """Who carries a stream, since when, and what may be trimmed of it."""
        known = self._ask(self._floors.changes_of(name)) or []
        bases = self._ask(self._floors.bases(name)) or [] if known else []
        carriers = self._ask(self._floors.carriers(name)) or [] if known else []
        publishes = name in {item.name for item in self._deployment.segments if item.outputs}
        pins = self._ask(self._floors.pinned_by(name)) or [] if publishes else []
        if name in self._untrimmed:
            pins = [("--keep-input", -1)]
        return {
            "stream": name,
            "carriers": [
                {"unit": child.unit, "since": self._born(child.unit)} for child in carriers
            ],
            "last_end": self._ask(self._floors.last_end(name)) if known and publishes else None,
            "changes": [
                {
                    "number": change.number,
                    "how": change.how,
                    "parents": list(change.parents),
                    "children": [
                        {
                            "unit": child.unit,
                            "segment": child.segment,
                            "groups": child.groups,
                            "of": child.of,
                        }
                        for child in change.children
                    ],
                    "start": change.start,
                    "since": change.since,
                    "state": [list(item) for item in change.state],
                    "restart": change.restart,
                    "reason": change.reason,
                }
                for change in known
            ],
            "closings": [
                {"of": closing.number, "end": closing.end, "next": closing.next}
                for _, closing in bases
                if closing is not None
            ],
            "pins": [{"by": who, "after": epoch} for who, epoch in sorted(pins, key=_by_epoch)],
        }

    def unit(self, name: str) -> dict[str, Any]:
        """A unit from its birth to its seal."""
        turn = self._ask(self._floors.turn_of(name))
        seal = self._ask(self._floors.seal_of(name))
        batch = self._ask(self._floors.newest_batch(name))
        newest = self._newest(name, batch)
        published = self._look(lambda: self._log.records.execute(Newest(slices(name))))
        trimmed = self._look(lambda: self._log.floor(slices(name)))
        decided = self._look(lambda: self._log.floor(ranges(name)))
        return {
            "unit": name,
            "stream": stream_of(name),
            "born": self._born(name),
            "batch": batch,
            "epoch": newest.upto if newest else None,
            "slices": None
            if published is None or trimmed is None
            else max(0, published + (seal is None) - trimmed.number),
            "turn": None if turn is None else {"change": turn.change, "end": turn.end},
            "seal": None
            if seal is None
            else {"change": seal.change, "how": seal.how, "end": seal.end, "batch": seal.batch},
            "trimmed_epoch": None if trimmed is None else trimmed.epoch,
            "slices_floor": None if trimmed is None else trimmed.number,
            "ranges_floor": None if decided is None else decided.number,
        }

    def tables(self, unit: str) -> dict[str, Any]:
        """The Input and the Output Slice Table of a unit, as far as they are kept."""
        return {
            "unit": unit,
            "input": [row for item in self._kept(ranges(unit)) for row in _input_row(item)],
            "output": [row for item in self._kept(slices(unit)) for row in _output_row(item)],
        }

    def _kept(self, folder: str) -> Iterator[Any]:
        """The records of a folder that are not trimmed, without those that are damaged."""
        floor = self._look(lambda: self._log.floor(folder))
        newest = self._look(lambda: self._log.records.execute(Newest(folder)))
        if floor is None or newest is None:
            return
        for number in range(floor.number, newest + 1):
            yield self._look(partial(self._log.records.execute, Get(folder, number)))

    def damaged(self) -> list[dict[str, str]]:
        """Every record that is torn, altered or none at all."""
        store, found = self._log.store, []
        for folder in map(record_folder, (RESTARTS, TERMS, FORKS, FORK_ENDS)):
            for name in store.names(folder):
                found += self._damage(f"{folder}/{name}")
        for place, kinds in _PLACES.items():
            for owner in store.folders(place):
                there = store.folders(f"{place}/{owner}")
                claims = [kind for kind in there if kind.startswith("claims-")]
                for kind in (*kinds, *_FLOORS, *claims):
                    folder = f"{place}/{owner}/{kind}"
                    for name in store.names(folder) if kind in there else ():
                        found += self._damage(f"{folder}/{name}")
                for kind in kinds[:1] if place == "streams" else kinds[:2]:
                    found += self._gaps(f"{unquote(owner)}/{kind}") if kind in there else []
        found += self._gaps(RESTARTS)
        named = {item["path"] for item in found}
        return [*found, *(item for item in self._orphans() if item["path"] not in named)]

    def _orphans(self) -> Iterator[dict[str, str]]:
        """Changes that are missing although a unit has records that they have made."""
        store = self._log.store
        for unit in map(unquote, store.folders("units")):
            kinds = [record_folder(folder(unit)) for folder in (ranges, slices)]
            if not _UNIT.fullmatch(unit) or fork_number(unit) or not any(map(store.names, kinds)):
                continue
            name = member(record_folder(changes(stream_of(unit))), change_of(unit))
            if not store.exists(name):
                yield {"path": name, "what": f"is gone, and {unit} was made by it"}

    def _gaps(self, folder: str) -> list[dict[str, str]]:
        """Numbers that are missing between the floor and the newest: nobody gets past such a one.

        The floor is looked at afterwards, as it rises before anything is removed.
        """
        at = record_folder(folder)
        there = {int(name) for name in self._log.store.names(at) if name.isdigit()}
        try:
            floor = self._log.floor(folder).number
        except CorruptLogError:
            return []  # that is named
        missing = sorted(set(range(floor, max(there, default=-1))) - there)
        return [{"path": member(at, number), "what": "is gone"} for number in missing[:MOST_GAPS]]

    def _damage(self, name: str) -> list[dict[str, str]]:
        data = self._log.store.get(name)
        try:
            if data is not None:  # else trimmed meanwhile
                decode_at(data, name, path=name)
        except CorruptLogError as error:
            return [{"path": name, "what": str(error).removeprefix(f"{name}: ")}]
        return []

    def _names(self) -> list[str]:
        """Streams in the order of the deployment, then those that are no more in it."""
        there = [unquote(name) for name in self._log.store.folders("streams")]
        known = [item.name for item in self._deployment.segments]
        return [*known, *(name for name in there if name not in known)]

    def _born(self, unit: str) -> int | str | None:
        """The epoch after which a unit begins; or `not yet`, or `void`."""
        found = self._ask(self._floors.birth(unit))
        return found.epoch if isinstance(found, Birth) else found

    def _newest(self, unit: str, batch: int | None) -> Range | None:
        if batch is None or batch < 0:
            return None
        return self._look(partial(self._log.range, unit, batch))

    def _ask(self, steps: Steps[T]) -> T | None:
        return self._look(lambda: self._log.run(steps))

    def _look(self, look: Callable[[], T]) -> T | None:
        try:
            return look()
        except HoldfastError as error:
            self.trouble.append(str(error))
            return None


def _by_epoch(pin: tuple[str, int]) -> int:
    return pin[1]


def _children(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [child for change in changes for child in change["children"]]


def _input_row(record: Any) -> list[dict[str, Any]]:
    match record:
        case Range():
            batch = record.number - (record.turn is not None)
            told = {"batch": batch, "after": record.after, "upto": record.upto}
            return [{**told, "watermark_us": record.watermark_us, "source": record.source}]
        case Turn():
            return [{"turn": record.change, "end": record.end}]
    return []


def _output_row(record: Any) -> list[dict[str, Any]]:
    match record:
        case Slice():
            return [
                {
                    "batch": record.number,
                    "after": record.after,
                    "upto": record.upto,
                    "rows": record.rows,
                    "files": sum(len(files) for files in record.files.values()),
                    "watermark_us": record.watermark_us,
                    "digest": record.digest,
                    "skip": record.skip,
                    "generation": record.generation,
                }
            ]
        case Seal():
            return [{"seal": record.change, "how": record.how, "end": record.end}]
    return []
