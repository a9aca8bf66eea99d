"""Talk to a running coordinator: status, kill, retry, paths, stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from holdfast.control.shell.wire import ConnectionLostError, LineSocket
from holdfast.control.status import RunView
from holdfast.errors import BadInputError
from holdfast.rundir.endpoint import read_endpoint


class ControlClient:
    """A control connection to the coordinator of one run directory."""

    def __init__(self, run_dir: Path, *, timeout_s: float = 5.0) -> None:
        endpoint = read_endpoint(run_dir)
        if endpoint is None:
            raise ConnectionLostError(f"{run_dir}: nothing runs here")
        self._line = LineSocket(endpoint, "control", timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._line.close()

    def status(self) -> RunView:
        """The whole run at this moment."""
        return RunView.from_json(self._ask(op="status"))

    def kill(self, node: str) -> None:
        """Kill a node's processes."""
        self._ask(op="kill", node=node)

    def retry(self, unit: str) -> None:
        """Try a held unit again with a fresh budget."""
        self._ask(op="retry", unit=unit)

    def hand_over(
        self,
        *,
        stream: str,
        change: int,
        parents: list[str],
        children: list[str],
        reason: str,
        node: str = "",
    ) -> None:
        """Have the children of a change started, on a node if possible.

        They wait for their parents to end.
        """
        self._ask(
            op="hand over",
            stream=stream,
            change=change,
            parents=parents,
            children=children,
            reason=reason,
            node=node,
        )

    def note_scaling(self, text: str) -> None:
        """Put a line of the autoscaler's into the timeline."""
        self._ask(op="note scaling", text=text)

    def ask_path(self, what: Literal["open", "close", "prefer"], split: str, path: str) -> None:
        """Have a path left, trusted again, or preferred (empty: by order again)."""
        self._ask(op="path", what=what, split=split, path=path)

    def stop(self) -> None:
        """Begin to stop the run; it goes on while this returns."""
        self._ask(op="stop")

    def _ask(self, **request: Any) -> Any:
        self._line.send(request)
        answer = self._line.receive()
        if not answer.get("ok"):
            raise BadInputError(str(answer.get("error", "refused")))
        return answer.get("result")
