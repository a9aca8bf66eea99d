"""The systems of `peers`: how each is installed, started, killed and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

from benchmarks._peers_input import POLL_S, Feed

if TYPE_CHECKING:
    from holdfast.control.status import NodeView

HERE = Path(__file__).resolve().parent / "_peers"
ROOT = HERE.parents[1]
PINNED = {
    "flink": ("apache-flink==2.3.0",),
    "pathway": ("pathway==0.33.0",),
    "bytewax": ("bytewax==0.21.1",),
}
"""What each environment is made of; the Spark systems use the project's own."""
NAMES = ("holdfast", "spark-tuned", "spark-stock", "flink", "pathway", "bytewax", "holdfast-all")
LABELS = {
    "holdfast": "Holdfast, one warm spare",
    "holdfast-all": "Holdfast, all of it killed",
    "spark-tuned": "Structured Streaming, tuned",
    "spark-stock": "Structured Streaming, stock",
    "flink": "PyFlink 2.3.0",
    "pathway": "Pathway 0.33.0",
    "bytewax": "Bytewax 0.21.1",
}
Row = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class System:
    """A program that is started, killed and started again."""

    name: str
    root: Path
    feed: Feed
    envs: Path
    process: subprocess.Popen[bytes] | None = None
    restarted: threading.Thread | None = None

    def environment(self) -> dict[str, str]:
        paths = os.pathsep.join([str(HERE), str(ROOT / "src"), str(ROOT)])
        return {
            **os.environ,
            "INPUT": str(self.feed.folder),
            "OUTPUT": str(self.root / "out"),
            "STATE": str(self.root / "state"),
            "PYTHONPATH": paths,
            "SETTINGS": self.name.removeprefix("spark-"),
        }

    def command(self) -> list[str]:
        if self.name.startswith("spark"):
            return [sys.executable, str(HERE / "run_spark.py")]
        if self.name.startswith("holdfast"):
            run = "from holdfast.cli import main; main()"
            app = str(HERE / "holdfast_app.py")
            return [
                *(sys.executable, "-c", run, "run", app, "--nodes", "1", "--spares", "1"),
                *("--run-dir", str(self.root / "run"), "--json"),
            ]
        python = str(self.envs / self.name / "bin" / "python")
        if self.name == "bytewax":
            state = str(self.root / "state")
            return [
                *(python, "-m", "bytewax.run", "run_bytewax:flow"),
                *("-r", state, "-s", "1", "-b", "0"),
            ]
        return [python, str(HERE / f"run_{self.name}.py")]

    def __enter__(self) -> Self:
        (self.root / "state").mkdir(parents=True)
        if self.name == "bytewax":
            python = str(self.envs / self.name / "bin" / "python")
            subprocess.run(
                [python, "-m", "bytewax.recovery", str(self.root / "state"), "1"], check=True
            )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is None:
            return
        if self.name.startswith("holdfast") and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
        self._kill_all()

    def start(self) -> None:
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=self.environment(),
                stdout=log,
                stderr=log,
                cwd=self.root,
                start_new_session=True,
            )

    def ready(self) -> bool:
        """Whether a kill would meet it as it is meant to run: the spare of Holdfast is warm."""
        if self.name != "holdfast":
            return True
        return any(node.spare and node.ready for node in self._nodes())

    def kill(self) -> None:
        """SIGKILL; whoever restarts it does so at once."""
        if self.name == "holdfast":
            busy = [node for node in self._nodes() if node.units]
            if not busy:
                raise RuntimeError("no node runs the pipeline")
            _kill_tree(busy[0].pid)
            return
        self._kill_all()
        while self.process is not None and self.process.poll() is None:
            time.sleep(POLL_S)
        self.start()

    def _nodes(self) -> tuple[NodeView, ...]:
        from holdfast.control.client import ControlClient
        from holdfast.errors import HoldfastError

        try:
            with ControlClient(self.root / "run") as client:
                return client.status().nodes
        except (HoldfastError, OSError):
            return ()

    def _kill_all(self) -> None:
        if self.process is not None and self.process.poll() is None:
            _kill_tree(self.process.pid)
            self.process.wait()

    def memory(self) -> int:
        """Proportional set sizes of all its processes."""
        total = 0
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                total += process.memory_full_info().pss
        return total

    def _processes(self) -> list[Any]:
        with contextlib.suppress(psutil.Error, AttributeError):
            root = psutil.Process(self.process.pid)  # type: ignore[union-attr]
            return [root, *root.children(recursive=True)]
        return []


def _kill_tree(pid: int) -> None:
    """A process and all below it, found before any is killed."""
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                process.kill()


def install(names: list[str], envs: Path) -> None:
    """Make the environments that are missing."""
    for name in names:
        python = envs / name / "bin" / "python"
        stamp = envs / name / ".installed"
        if name not in PINNED or stamp.exists():
            continue
        print(f"installing {', '.join(PINNED[name])} into {envs / name}", flush=True)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(envs / name)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PINNED[name]], check=True)
        stamp.touch()
