"""The first hour of a stranger: a fresh clone, and nothing but what README says.

    python scripts/stranger.py [--repository URL] [--keep FOLDER] [--venv FOLDER] [--json FILE]

Clones the repository into an empty folder and types the commands of README's blocks marked
`stranger`, in order, as somebody with two terminals would: what ends in `&` goes on in the
background, `holdfast run` gets a terminal of its own, a node is killed once the run is up and its
spares are warm, and Ctrl-C stops the run before `verify`. Each command must succeed, the killed
units must be back, the run must end in order. Every step is timed, and the whole must take less
than a quarter of an hour. `--venv` takes an environment that is there, in place of README's.

Exit code 0: all of it worked in time; 1: it did not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 15 * 60.0
STEP_S = 10 * 60.0
POLL_S = 0.2
_BLOCK = re.compile(
    r"^<!-- block: stranger -->\n```sh\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


class FailedError(Exception):
    """A step that README promises did not work."""


@dataclass(slots=True, kw_only=True)
class Stranger:
    """A shell that is typed into: a directory, an environment, and what runs in the background."""

    root: Path
    """The empty folder it began in."""
    folder: Path
    """Where it is now."""
    path: str = field(default_factory=lambda: os.environ["PATH"])
    venv: Path | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)
    background: list[subprocess.Popen[bytes]] = field(default_factory=list)
    run: subprocess.Popen[bytes] | None = None

    def type(self, line: str) -> None:
        """One line of README, timed."""
        print(f"$ {line}", flush=True)
        began = time.monotonic()
        self._do(line)
        took = time.monotonic() - began
        self.steps.append({"command": line, "seconds": round(took, 1)})
        print(f"  {took:.1f} s", flush=True)

    def _do(self, line: str) -> None:
        if line.startswith("cd "):
            self.folder = (self.folder / line.removeprefix("cd ").strip()).resolve()
            return
        if ". .venv/bin/activate" in line:
            self._install(line)
            return
        words = line.split()
        match words[:2]:
            case ["holdfast", "run"]:
                self.run = self._start(line)
                self._wait(self._is_up, "the run is up and its spares are warm")
                return
            case ["holdfast", "kill"]:
                self._call(line)
                self._wait(self._is_back, "what was killed is back")
                return
            case ["holdfast", "verify"]:
                self._stop_run()
        if line.endswith("&"):
            self.background.append(self._start(line.removesuffix("&").strip()))
        else:
            self._call(line)

    def _install(self, line: str) -> None:
        """Activating an environment is a matter of this shell: of its path."""
        if self.venv is None:
            self._call(line)
        binaries = (self.venv or self.folder / ".venv") / "bin"
        self.path = f"{binaries}{os.pathsep}{self.path}"

    # -- commands ---------------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        hidden = ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS", "MAKELEVEL")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        return {**kept, "PATH": self.path}

    def _call(self, line: str) -> None:
        process = self._start(line)
        try:
            code = process.wait(STEP_S)
        except subprocess.TimeoutExpired:
            _end(process)
            raise FailedError(f"not done within {STEP_S:.0f} s\n{self._terminal()}") from None
        if code:
            raise FailedError(f"exit code {code}\n{self._terminal()}")
        if last := self._terminal().strip().splitlines()[-1:]:
            print(f"  {last[0]}", flush=True)

    def _start(self, line: str) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", line if "&&" in line else f"exec {line}"],
                cwd=self.folder,
                env=self.environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    # -- the run ----------------------------------------------------------------------------------

    def _view(self) -> dict[str, Any]:
        done = subprocess.run(
            ["/bin/sh", "-c", "holdfast status --json"],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
        return found

    def _is_up(self) -> bool:
        view = self._view()
        warm = all(node["ready"] for node in view.get("nodes", []))  # a plan may need no spare
        epochs = [unit["epoch"] or 0 for unit in view.get("units", [])]
        return view.get("status") == "running" and warm and min(epochs, default=0) > 0

    def _is_back(self) -> bool:
        view = self._view()
        found = view.get("recoveries", [])
        back = bool(found) and all(one["outcome"] == "caught up" for one in found)
        if back and view["status"] == "running":
            for one in found:
                print(f"  {one['unit']} was back after {one['total_s']:.2f} s", flush=True)
            return True
        return False

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + STEP_S
        while not done():
            if self.run is None or self.run.poll() is not None:
                raise FailedError(f"the run ended before {what}\n{self._terminal()}")
            if time.monotonic() > end:
                raise FailedError(f"not within {STEP_S:.0f} s: {what}\n{self._terminal()}")
            time.sleep(POLL_S)

    @property
    def log(self) -> Path:
        """Where the newest command writes: a terminal each."""
        return self.root / f"terminal-{len(self.steps)}.log"

    def _terminal(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def _stop_run(self) -> None:
        if self.run is None:
            return
        process, self.run = self.run, None
        os.killpg(process.pid, signal.SIGINT)
        if code := process.wait(STEP_S):
            raise FailedError(f"Ctrl-C ended the run with exit code {code}")

    def close(self) -> None:
        """End what was started, whatever happened."""
        for process in (*self.background, *([self.run] if self.run else [])):
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, and a minute later SIGKILL, to a command and what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def lines_of(page: str) -> list[str]:
    """What the blocks marked for a stranger say to type."""
    texts = [match["text"] for match in _BLOCK.finditer(page)]
    found = [line.partition("  #")[0].strip() for text in texts for line in text.splitlines()]
    typed = [line for line in found if line and not line.startswith("#")]
    if not typed:
        raise FailedError("README says nothing to a stranger")
    return typed


@contextlib.contextmanager
def empty_folder(keep: Path | None) -> Iterator[Path]:
    """An empty folder; unless it is to be kept, it is gone afterwards."""
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="stranger-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repository", default=str(ROOT), help="what is cloned")
    parser.add_argument("--keep", type=Path, help="a new folder to work in, and to leave as it is")
    parser.add_argument("--venv", type=Path, help="an environment that is there already")
    parser.add_argument("--json", type=Path, help="steps and seconds")
    args = parser.parse_args()
    # What a shell starts in the background ignores Ctrl-C, and so would the run.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    with empty_folder(args.keep) as folder:
        stranger = Stranger(root=folder, folder=folder, venv=args.venv and args.venv.absolute())
        failed = ""
        try:
            stranger.type(f"git clone --quiet {args.repository} holdfast")
            stranger.type("cd holdfast")
            for line in lines_of((stranger.folder / "README.md").read_text(encoding="utf-8")):
                stranger.type(line)
        except FailedError as error:
            failed = str(error)
            print(f"FAILED: {failed}", file=sys.stderr)
        finally:
            stranger.close()
    took = time.monotonic() - began
    load = os.getloadavg()[2]
    in_time = took < LIMIT_S
    print(f"\n{took / 60:.1f} minutes of {LIMIT_S / 60:.0f}, load average {load:.1f}")
    if args.json:
        result = {"seconds": took, "load": load, "failed": failed, "steps": stranger.steps}
        args.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if failed or not in_time else 0


if __name__ == "__main__":
    sys.exit(main())
