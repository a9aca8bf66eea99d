"""Has splits take paths, on the records of a run directory."""

from __future__ import annotations

from pathlib import Path

from holdfast.deployment import Deployment
from holdfast.rundir.records import RecordFolder
from holdfast.storage import open_storage
from holdfast.streams import paths
from holdfast.streams.paths import Carried
from holdfast.streams.records import unit_name
from holdfast.streams.restart import Restarts


class Carriers:
    """Carries out what was decided about paths; for one thread."""

    def __init__(self, run_dir: Path, deployment: Deployment, *, writer: str) -> None:
        self._records = RecordFolder(open_storage(run_dir))
        self._deployment = deployment
        self._steps = Restarts(writer)

    def take(self, split: str, path: str, *, reason: str) -> Carried:
        """See that a path carries a split's stream; without one, only say which one does."""
        segment = self._deployment.segment(split)
        now = self._records.run(paths.carried(self._steps, segment))
        if now is None:  # no unit has run yet, so it begins as it was deployed
            return Carried(
                split=split,
                path=segment.paths[0],
                change=segment.change,
                reason="the run began",
                units=tuple(
                    unit_name(split, segment.change, shard) for shard in range(segment.shards)
                ),
            )
        if not path:
            return now
        return self._records.run(paths.take(self._steps, segment, path, reason=reason))

    def keep(self, name: str, *, runs: bool, reason: str) -> tuple[str, ...] | None:
        """See that a hot path runs along or is shut down; gives its units, None: not now.

        One that its split takes is not shut down.
        """
        segment = self._deployment.segment(name)
        split = self._deployment.segment(segment.path)
        if runs:
            inputs = self._deployment.streams_read(segment)
            return self._records.run(
                paths.begin_again(self._steps, segment, split, inputs, reason=reason)
            )
        done = self._records.run(paths.shut_down(self._steps, segment, split, reason=reason))
        return () if done else None
