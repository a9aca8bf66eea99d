"""The launcher's shell where processes cannot be started."""

import pytest

from holdfast.rundir.contents import processes_path
from holdfast.runtime.launch.local import LaunchSettings, LocalLauncher
from holdfast.runtime.node.processes import launch_members

pytestmark = pytest.mark.unit


def test_a_launch_that_cannot_start_leaves_no_process(tmp_path):
    """Whoever asked for it gets the error, and nothing waits for what never ran."""
    processes_path(tmp_path).mkdir()
    made = LocalLauncher(
        run_dir=tmp_path, launch="cannot-start", parent_pid=1, settings=LaunchSettings(nodes=2)
    )
    with pytest.raises(IsADirectoryError):
        made.start()
    assert not made.alive()
    assert not made.coordinator_expected()
    assert launch_members("cannot-start") == []
    made.close()
