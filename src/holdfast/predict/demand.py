"""What a segment demands, as positions in a vector: so demands add up over what it consists of."""

from __future__ import annotations

(
    WORK,
    WORK_HIGH,
    FIXED,
    FIXED_HIGH,
    FIRST,
    FIRST_HIGH,
    PLANNING,
    LOAD,
    LOAD_HIGH,
    LOG_FIXED,
    LOG_RATE,
    CPU_RATE,
    CPU_BATCH,
    CPU_SNAPSHOT,
    QUERY,
) = range(15)
QUANTITIES = 15
"""What a segment demands is a vector of these, and adds up over what it consists of:

work: seconds of computing per second of input, in the slowest shard; fixed: seconds per batch;
first: seconds that the first batch after a restart takes longer, beyond what it does for any query;
planning: those of them that pass before it has to have its input; load: seconds to load a snapshot;
log: seconds per changelog, and per second of input in changelogs; cpu: cores, CPU seconds per
batch, CPU seconds per snapshot; query: above 0 if it is a Spark query, 0 if a thread; high: at the
95th percentile."""
