"""What a watermark on record means to Spark, and what a segment promises in turn."""

from __future__ import annotations


def spark_watermark(watermark_us: int, *, windows: bool = False) -> int:
    """What Spark is told a recorded watermark is: the last time that it rules out.

    A recorded watermark says that no row is older; Spark drops rows that are as old as its own.
    Where it goes by the ends of `windows` alone, the watermark is told as it is: a window that ends
    there holds only older rows. Watermarks and windows often lie on the same grid, and an instant
    less would keep every window open for a batch more.
    """
    return watermark_us if windows else watermark_us - 1


def output_watermark(
    before_us: int | None,
    now_us: int | None,
    *,
    stateful: bool,
    windows: bool = False,
    lag_us: int | None = 0,
) -> int | None:
    """Below which event time no later slice will hold rows.

    `before_us` and `now_us` are those of the inputs before and after the batch. Spark runs a batch
    at the watermark that the batch before left behind, so a stateful segment may emit, one batch
    later, rows down to the watermark before: its promise lags one batch. What closes then has its
    end behind that watermark, so its last instant at or behind Spark's, which knows whole
    milliseconds only (`windows` as above). A join may give out rows that are older still, by
    `lag_us` (None: of any age).
    """
    if not stateful:
        return now_us
    if before_us is None or lag_us is None:
        return None
    return spark_watermark(before_us, windows=windows) // 1000 * 1000 - lag_us
