"""`python -m holdfast.runtime.node --run-dir RUN --name n0 --domain d0`."""

from __future__ import annotations

import argparse
import logging
import logging.handlers
import os
import secrets
import sys
from dataclasses import replace
from pathlib import Path

from holdfast.errors import BadInputError
from holdfast.rundir.application import absolute_app, app_folder
from holdfast.rundir.contents import node_log_path
from holdfast.rundir.spec import BAD_INPUT, read_spec
from holdfast.runtime.node.hosts import find_host
from holdfast.runtime.node.processes import LAUNCH_VARIABLE
from holdfast.runtime.node.program import NodeProgram, NodeSettings

LOG_BYTES = 4 * 2**20


def main() -> int:
    options = _options()
    if os.getsid(0) != os.getpid():
        # Java and Python children stay in the session, so that they can be found and ended.
        try:
            os.setsid()
        except OSError:
            # A group leader cannot; its launcher has given it a group and must kill that.
            logging.getLogger("holdfast.node").debug("not a session leader")
    run_dir = options.run_dir.resolve()
    _log_to(node_log_path(run_dir, options.name))
    spec = read_spec(run_dir)
    app = absolute_app(options.app or spec.app)
    _work_in(app_folder(app))
    try:
        spec = replace(spec, app=app, host=options.host or spec.host)
        host = find_host(spec.host)(run_dir, options.name, spec)
    except BadInputError as error:
        logging.getLogger("holdfast.node").error("%s", error)  # noqa: TRY400
        print(f"holdfast: {error}", file=sys.stderr)  # noqa: T201
        return BAD_INPUT
    except Exception:
        # To the log for `holdfast logs`; the traceback on standard error is the launcher's.
        logging.getLogger("holdfast.node").exception("cannot start")
        raise
    settings = NodeSettings(
        run_dir=run_dir,
        node=options.name,
        incarnation=f"{options.name}-{secrets.token_hex(6)}",
        launch=options.launch,
        domain=options.domain,
        spare=options.spare,
        beat_s=options.beat_s,
        orphan_s=options.orphan_s,
        stop_s=options.stop_s,
        parent_pid=options.parent_pid,
        judged=frozenset(spec.deployment.alone),
    )
    return NodeProgram(settings, host).run()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="holdfast-node")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--domain", default="")
    parser.add_argument("--app", default="", help="instead of the one in RUN/run.json")
    parser.add_argument("--host", default="", help="instead of the one in RUN/run.json")
    parser.add_argument("--spare", action="store_true")
    parser.add_argument("--launch", default=os.environ.get(LAUNCH_VARIABLE, ""))
    parser.add_argument("--beat-s", type=float, default=0.25)
    parser.add_argument("--orphan-s", type=float, default=120.0)
    parser.add_argument("--stop-s", type=float, default=15.0)
    parser.add_argument("--parent-pid", type=int, help="end when this is no longer the parent")
    return parser.parse_args()


def _work_in(folder: Path) -> None:
    """Relative paths of the application start here, also in Java and in Python workers."""
    paths = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if paths:
        # Those meant the directory we leave.
        os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(part).absolute()) for part in paths)
    os.chdir(folder)


def _log_to(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8"
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("holdfast")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)


if __name__ == "__main__":
    sys.exit(main())
