"""`holdfast web`: a run over HTTP."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from holdfast.cli.runs import Json, Run, RunDir, find_run


def web(
    run: Run = None,
    run_dir: RunDir = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8470,
    as_json: Json = False,
) -> None:
    """Serve status, statistics and commands of a run over HTTP, behind a token.

    The token is that of HOLDFAST_TOKEN, or a new one that is printed. The API is described by
    /openapi.json. Ctrl-C ends it; the run goes on.
    """
    import secrets

    from holdfast.web.serve import TOKEN_VARIABLE, serve

    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32)
    directory = find_run(run, run_dir)

    def said(address: str) -> None:
        if as_json:
            print(json.dumps({"address": address, "token": token}), flush=True)  # noqa: T201
            return
        print(f"{address}\ntoken: {token}", file=sys.stderr, flush=True)  # noqa: T201

    serve(directory, host=host, port=port, token=token, said=said)
