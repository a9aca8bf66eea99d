"""The comparison with other systems counts right, and goes on where it was."""

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks._peers_input import Feed, Results, difference
from benchmarks._peers_systems import LABELS, NAMES
from benchmarks.peers import Record, rounds_of, table

pytestmark = pytest.mark.unit

ASKED = {"kills": 2, "rounds": 1, "rate": 5, "burst": 10}


def piece(name, **changes):
    row = {"lag_s": 1.0, "phase": 0.5, "first_s": 2.0, "caught_up_s": 3.0}
    made = {
        "system": name,
        "round": 0,
        "start_s": 4.0,
        "recoveries": [row, row | {"caught_up_s": 9.0}],
        "lost": 0,
        "doubled": 0,
        "lines_per_s": 1000.0,
        "memory_mb": 100.0,
        "load": 1.0,
    }
    return made | changes


def test_results_are_read_from_every_form_and_the_newest_count_holds(tmp_path):
    """Parquet, growing CSV and lines of JSON; what is hidden or half written does not count."""
    found = Results(tmp_path)
    columns = {"second": ["0"], "word": ["a"], "count": [2]}
    pq.write_table(pa.table(columns), tmp_path / "1.parquet")
    (tmp_path / "2.csv").write_text("0,b,1\n0,b,3\n0,c,")
    (tmp_path / "3.jsonl").write_text(
        "".join(json.dumps({"key": "1,a", "count": 5, "diff": sign}) + "\n" for sign in (1, -1))
    )
    (tmp_path / ".hidden").write_text("0,a,100\n")
    found.poll()
    assert found.counts == {"0,a": 2, "0,b": 3, "1,a": 5}
    with (tmp_path / "2.csv").open("a") as file:
        file.write("7\n")
    found.poll()
    assert found.counts["0,c"] == 7
    assert found.totals == {0: 12, 1: 5}


def test_words_that_are_missing_or_too_many_are_told_apart():
    """Neither makes up for the other."""
    expected = Counter({"0,a": 3, "0,b": 2})
    assert difference(expected, {"0,a": 3, "0,b": 2}) == (0, 0)
    assert difference(expected, {"0,a": 1, "0,b": 4, "0,c": 1}) == (2, 3)


def test_what_is_expected_is_what_was_released(tmp_path):
    """The file of a second holds just the words that are waited for."""
    feed = Feed(tmp_path / "input", 5)
    second = feed.release(20)
    lines = (tmp_path / "input" / "00000000.txt").read_text().splitlines()
    words = Counter(f"{second},{word}" for line in lines for word in line.split(" ")[1:])
    assert words == feed.expected
    assert feed.totals == {0: sum(words.values())}


def test_kills_are_spread_over_rounds():
    """Every kill in one of them, at the same moments however many rounds there are."""
    assert [len(phases) for phases in rounds_of(5, 3)] == [2, 2, 1]
    spread = [phase for phases in rounds_of(5, 3) for phase in phases]
    assert sorted(spread) == sorted(rounds_of(5, 1)[0])
    assert rounds_of(1, 3) == [[0.5]]


def test_a_run_in_pieces_goes_on_and_no_other_is_mixed_in(tmp_path):
    """What is measured is not measured again; another load or number of kills is refused."""
    path = tmp_path / "peers.json"
    Record(path=path, asked=ASKED).add(piece("flink"))
    again = Record(path=path, asked=ASKED)
    again.resume()
    assert again.has("flink", 0)
    assert not again.has("flink", 1)
    assert not again.has("pathway", 0)
    with pytest.raises(SystemExit, match="another run"):
        Record(path=path, asked=ASKED | {"rate": 6}).resume()


def test_the_table_says_what_failed_beside_what_was_measured():
    """Medians over the kills, their worst, and a row for a failure."""
    record = Record(path=None, asked=ASKED)
    record.add(piece("flink", lost=1))
    record.add({"system": "flink", "round": 1, "failed": "no burst within 600 s"})
    (row,) = record.systems()
    assert (row["kills"], row["caught_up_s"], row["worst_s"], row["lost"]) == (2, 6.0, 9.0, 1)
    failure, measured = table([row]).splitlines()[2:]
    assert failure.startswith(f"| {LABELS['flink']} | failed: no burst")
    assert "| 6.0 s | 9.0 s | 1 | 0 | 1.0k | 100 MB |" in measured
    assert len({line.count("|") for line in table([row]).splitlines()}) == 1
    assert set(LABELS) == set(NAMES)
