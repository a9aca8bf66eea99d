"""The wheel in an environment of its own, from an empty folder."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.full]

ROOT = Path(__file__).parents[2]
MOST_MB = 100


def run(*command, cwd, code=0):
    said = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "LC_ALL": "C.UTF-8"},
    )
    assert said.returncode == code, said.stdout + said.stderr
    return said


def size_mb(folder):
    """What an installation takes, without what a new environment has in any case."""
    tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils")
    return (
        sum(
            path.stat().st_size
            for item in folder.iterdir()
            if not item.name.startswith(tools)
            for path in ([item] if item.is_file() else item.rglob("*"))
            if path.is_file()
        )
        / 1e6
    )


def test_the_wheel_works_from_an_empty_folder(tmp_path):
    """Light without extras; with what Spark needs it makes a project, checks and tests it."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheels = tmp_path / "wheels"
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", wheels, ROOT, cwd=tmp_path)
    (wheel,) = wheels.glob("holdfast-*.whl")
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=tmp_path)
    run(venv / "bin/pip", "install", "-q", wheel, cwd=tmp_path)
    (site,) = venv.glob("lib/python*/site-packages")
    size = size_mb(site)
    print(f"installed: {size:.1f} MB")
    assert size < MOST_MB

    empty = tmp_path / "empty"
    empty.mkdir()
    holdfast = venv / "bin/holdfast"
    assert "prove" in run(holdfast, "--help", cwd=empty).stdout
    assert "this needs" not in run(holdfast, "init", "shop", cwd=empty).stdout
    assert json.loads(run(holdfast, "doctor", "--json", cwd=empty, code=1).stdout)["ok"] is False

    # The rest of the pinned environment stands in for `pip install holdfast[all] pytest`.
    (site / "rest.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    shop = empty / "shop"
    said = run(holdfast, "check", "app.py", cwd=shop)
    assert "nothing is wrong" in said.stdout
    run(venv / "bin/python", "-m", "pytest", "-q", cwd=shop)
    where = run(venv / "bin/python", "-c", "import holdfast; print(holdfast.__file__)", cwd=empty)
    assert where.stdout.startswith(str(site))
    assert "Cut" in run(holdfast, "plan", "app.py", cwd=shop).stdout.replace("Do not cut", "Cut")
