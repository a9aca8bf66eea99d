"""Start the processes of a run on this machine, watch them, and leave none behind."""

from holdfast.runtime.launch.run import LocalRun, StopReport

__all__ = ["LocalRun", "StopReport"]
