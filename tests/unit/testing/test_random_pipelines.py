"""Generated pipelines: the same for the same seed, of every kind, with something to expect."""

import pytest

from holdfast.pipeline import deploy
from holdfast.testing.random_pipelines import app_text, draw, feed_rows, random_pipeline
from holdfast.testing.random_pipelines.draw import MAX_GROWTH
from holdfast.testing.random_pipelines.steps import RULES, Row, Step

pytestmark = pytest.mark.unit

SEEDS = range(60)
EPOCHS = 20


def rows_of(drawing):
    """What the sources of a drawing give in the first epochs."""
    return {
        feed.name: [
            row
            for epoch in range(EPOCHS)
            for row in feed_rows(epoch, drawing.seed, feed=feed, epoch_ms=drawing.epoch_ms)
        ]
        for feed in drawing.feeds
    }


def test_all_kinds_are_drawn():
    """There is no rule that no pipeline tries."""
    kinds = (step.kind for seed in SEEDS for step in draw(seed).steps)
    missing = set(RULES)
    while missing:
        missing.discard(next(kinds))


@pytest.mark.sample(first=0)
@pytest.mark.parametrize("first", range(0, 60, 15))
def test_every_seed_can_be_deployed(first):
    """Nothing that is drawn is refused, cut or not."""
    for seed in range(first, first + 15):
        pipeline = random_pipeline(seed)
        pipeline.validate()
        for cuts in ("none", "all"):
            assert deploy(pipeline, cuts=cuts).segments


def test_a_seed_is_one_pipeline():
    """Two processes that load the same application mean the same."""
    assert draw(5) == draw(5)
    assert app_text(5) == app_text(5)
    assert draw(5) != draw(6)
    assert rows_of(draw(5)) == rows_of(draw(5))


@pytest.mark.sample(first=0)
@pytest.mark.parametrize("first", range(0, 60, 15))
def test_streams_hold_rows_and_do_not_run_away(first):
    """Every sink has something to compare, and no stream more than a machine can bear."""
    for seed in range(first, first + 15):
        drawing = draw(seed)
        rows = rows_of(drawing)
        made = drawing.evaluate(rows)
        most = MAX_GROWTH * sum(map(len, rows.values()))
        assert all(len(found) <= most for found in made.values()), seed
        assert all(made[name] for name in drawing.sinks), seed


def test_a_window_counts_a_row_in_every_span_that_holds_it():
    """Windows of 4 s every 2 s: each row is in two of them."""
    first = draw(0)
    at = rows_of(first)[first.feeds[0].name][0].ts.replace(microsecond=0)
    step = Step(name="w", kind="window", inputs=("f",), numbers=(("width_s", 4), ("slide_s", 2)))
    assert len(step.of([Row(at, "a", 1)])) == 2
