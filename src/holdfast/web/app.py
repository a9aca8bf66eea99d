"""The application: routes, their documents, the token.

Views are parts of the status document, made by the coordinator; commands go through its door, the
same that the command line uses. So the application decides nothing and keeps nothing, and may be
started and stopped beside a run as one likes. `GET /openapi.json` describes all of it and needs no
token.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from holdfast import __version__
from holdfast.control.shell.wire import ConnectionLostError
from holdfast.control.status import RecoveryView, RunView
from holdfast.errors import BadInputError
from holdfast.web import documents as d
from holdfast.web.door import Door

PREFIX = "/api/v1"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": d.Refused, "description": "No token, or a wrong one."},
    503: {"model": d.Refused, "description": "No coordinator leads at this moment."},
}
_UNKNOWN: dict[int | str, dict[str, Any]] = {
    404: {"model": d.Refused, "description": "There is nothing of that name."}
}


def make_app(door: Door, token: str) -> FastAPI:
    """The application of one run; every route but the description asks for the token."""
    app = FastAPI(
        title="Holdfast",
        version=__version__,
        summary="A streaming pipeline that survives failures: how it does, and what to tell it.",
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(ConnectionLostError, _unavailable)
    app.add_exception_handler(BadInputError, _unknown)
    app.include_router(_views(door, token))
    app.include_router(_commands(door, token))
    return app


def _views(door: Door, token: str) -> APIRouter:
    router = _router(token, "views")

    def run() -> RunView:
        """The whole status of the run."""
        return door.status()

    def topology() -> d.TopologyDocument:
        """What runs: segments, their operators and units, and who reads whom."""
        return d.topology(door.deployment())

    def statistics() -> d.StatisticsDocument:
        """Rates, queues, batch times, state and memory of units and nodes."""
        return d.statistics(door.status())

    def recoveries() -> tuple[RecoveryView, ...]:
        """Failures and the phases of their repair, oldest first."""
        return door.status().recoveries

    def timeline(after: float = 0.0) -> d.TimelineDocument:
        """The newest facts of the journal, those after a time (seconds since 1970)."""
        facts = door.status().timeline
        return d.TimelineDocument(facts=tuple(fact for fact in facts if fact.at > after))

    def coordinators() -> d.CoordinatorsDocument:
        """Who leads, and who is ready to take over."""
        return d.coordinators(door.status())

    def paths() -> d.PathsDocument:
        """Splits, the path that each takes, and the circuit breaker of every path.

        A breaker is `closed` (the path may carry the stream), `open` (it failed, and is tried again
        after a while), `half-open` (it is being tried on a share of the input that nobody reads) or
        `failed` (it was tried too often). The first in order that is closed is active, or the
        preferred one; with none the input waits in the log.
        """
        return d.PathsDocument(splits=door.status().splits)

    for view in (run, topology, statistics, recoveries, timeline, coordinators, paths):
        name = view.__name__
        router.add_api_route(f"/{name}", view, methods=["GET"], operation_id=name)
    return router


def _commands(door: Door, token: str) -> APIRouter:
    router = _router(token, "commands")

    def kill(node: str) -> d.Done:
        """Kill a node's processes; its units recover elsewhere."""
        door.kill(node)
        return d.Done(done=f"killed {node}")

    def retry(unit: str) -> d.Done:
        """Try a held unit again with a fresh budget."""
        door.retry(unit)
        return d.Done(done=f"retrying {unit}")

    def open_path(split: str, path: str) -> d.Done:
        """Do not use a path until it is closed by hand."""
        door.ask_path("open", split, path)
        return d.Done(done=f"{split}:{path} is not used")

    def close_path(split: str, path: str) -> d.Done:
        """Trust a path again, whatever its breaker says."""
        door.ask_path("close", split, path)
        return d.Done(done=f"{split}:{path} is trusted")

    def prefer_path(split: str, path: str) -> d.Done:
        """Use a path whenever its breaker is closed."""
        door.ask_path("prefer", split, path)
        return d.Done(done=f"{split}:{path} is preferred")

    def by_order(split: str) -> d.Done:
        """Prefer no path of a split: the first in order that may is used."""
        door.ask_path("prefer", split, "")
        return d.Done(done=f"{split} goes by order")

    def stop() -> d.Done:
        """Stop the run."""
        door.stop()
        return d.Done(done="stopping")

    commands: tuple[tuple[str, Callable[..., d.Done]], ...] = (
        ("/nodes/{node}/kill", kill),
        ("/units/{unit}/retry", retry),
        ("/paths/{split}/by-order", by_order),
        ("/paths/{split}/{path:path}/open", open_path),
        ("/paths/{split}/{path:path}/close", close_path),
        ("/paths/{split}/{path:path}/prefer", prefer_path),
        ("/stop", stop),
    )
    for path, command in commands:
        router.add_api_route(
            path,
            command,
            methods=["POST"],
            status_code=202,
            operation_id=command.__name__,
            responses=_UNKNOWN,
        )
    return router


def _router(token: str, tag: str) -> APIRouter:
    bearer = HTTPBearer(auto_error=False, description="The token of this server.")

    def authorized(given: HTTPAuthorizationCredentials | None = Depends(bearer)) -> None:  # noqa: B008
        said = given.credentials if given is not None else ""
        if not hmac.compare_digest(said.encode(), token.encode()):
            raise HTTPException(
                401, "no token, or a wrong one", headers={"WWW-Authenticate": "Bearer"}
            )

    return APIRouter(
        prefix=PREFIX, tags=[tag], dependencies=[Depends(authorized)], responses=_REFUSALS
    )


def _unavailable(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=503)


def _unknown(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=404)
