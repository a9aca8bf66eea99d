"""Which processes run tasks of a query, and what they have used of a processor."""

import pytest

from holdfast.runtime.spark.start.daemon import worker_name

life = pytest.importorskip("holdfast.runtime.spark.units.life")

pytestmark = pytest.mark.unit

RUN = "55ee8f35-e31b-4453-80a3-1dd6879758a4"


def process(folder, pid, name, used):
    (folder / str(pid)).mkdir()
    (folder / str(pid) / "comm").write_text(f"{name}\n")
    (folder / str(pid) / "schedstat").write_text(f"{used} 7 9\n")


def test_names_fit_and_differ():
    """Linux cuts a name after 15 characters."""
    assert worker_name(RUN) == "hf-55ee8f35e31b"
    assert len(worker_name(RUN)) == 15
    assert len({worker_name(RUN), worker_name(f"0{RUN[1:]}"), "hf-idle"}) == 3


def test_only_workers_of_the_query_count(tmp_path):
    """Others, and those that end while one looks, do not."""
    process(tmp_path, 12, worker_name(RUN), 1_000)
    process(tmp_path, 7, worker_name(RUN), 5)
    process(tmp_path, 3, "hf-idle", 99)
    process(tmp_path, 4, "java", 99)
    (tmp_path / "44").mkdir()
    (tmp_path / "self").mkdir()
    assert life.worker_times(worker_name(RUN), tmp_path) == ((7, 5), (12, 1_000))
    assert life.worker_times("hf-none", tmp_path) == ()
