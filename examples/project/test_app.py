"""What the pipeline makes of given rows: pytest runs this in seconds, without a cluster."""

from app import pipeline

from holdfast import testing


def test_words_are_counted_per_window() -> None:
    """A row that is too old for the watermark is late, and counted apart."""
    found = testing.run(
        pipeline,
        {
            "lines": [
                [("2026-01-01T00:00:01", "kelp  rock"), ("2026-01-01T00:00:19", "kelp")],
                [("2026-01-01T00:00:02", "too late"), ("2026-01-01T00:00:15", "kelp")],
            ]
        },
    )
    assert [(row["word"], row["count"]) for row in found["counts"]] == [
        ("kelp", 1),
        ("rock", 1),
        ("kelp", 2),
    ]
    assert [row["line"] for row in found.late["lines"]] == ["too late"]
