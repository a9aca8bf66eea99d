"""What sums over windows of events come to, worked out without Spark."""

import datetime as dt
from collections import defaultdict


def sums_of_windows(rows, *, start, seconds, times=1):
    """Per window of so many seconds and key: so many times the sum, and the count."""
    sums = defaultdict(lambda: (0, 0))
    for ts, key, value in rows:
        at = ts - (ts - start) % dt.timedelta(seconds=seconds)
        total, count = sums[at, key]
        sums[at, key] = (total + times * value, count + 1)
    return dict(sums)
