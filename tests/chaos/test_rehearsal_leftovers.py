"""A spare that is killed while it rehearses leaves nothing that keeps files on disk."""

import secrets
import time
from pathlib import Path

import pytest

from holdfast.health.policy import Policy
from holdfast.pipeline import deploy, load_pipeline
from holdfast.rundir.spec import RunSpec, write_spec
from holdfast.runtime.launch.children import Child

pytestmark = pytest.mark.chaos

APP = Path(__file__).parent.parent / "spark" / "crash_app.py"
DEADLINE_S = 120.0


def test_a_spare_killed_in_a_rehearsal_leaves_nothing(tmp_path):
    """Its launcher removes what it rehearsed with, once nothing of it runs."""
    spec = RunSpec(
        app=str(APP),
        host="spark",
        deployment=deploy(load_pipeline(str(APP)), cuts="all"),
        policy=Policy(),
    )
    write_spec(tmp_path, spec)
    spare = Child(
        kind="node",
        name="s0",
        module="holdfast.runtime.node",
        arguments=["--run-dir", str(tmp_path), "--name", "s0", "--spare"],
        run_dir=tmp_path,
        launch=secrets.token_hex(8),
    )
    try:
        end = time.monotonic() + DEADLINE_S
        while not [path for path in tmp_path.rglob("checkpoints/*") if "warm" in path.parts]:
            assert time.monotonic() < end, spare.last_words()
            assert spare.exit_code() is None, spare.last_words()
            time.sleep(0.02)
    finally:
        spare.kill()
        spare.clean()
    left = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file()}
    assert left <= {"run.json", "schemas.json", "nodes"}
