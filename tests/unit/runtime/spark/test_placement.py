"""Plans as Spark prints them: is state where the key says?"""

import pytest

from holdfast.runtime.spark.frames.placement import lies_by_key

pytestmark = pytest.mark.unit

OURS = "Exchange hashpartitioning(word#34, 4), REPARTITION_BY_NUM, [plan_id=257]"
SPARKS = "Exchange hashpartitioning(window#9, word#34, 4), ENSURE_REQUIREMENTS, [plan_id=258]"
AGGREGATE = """\
*(5) HashAggregate(keys=[window#9-T10000ms, word#34], functions=[count(1)])
+- StateStoreSave [window#9, word#34], state info [ checkpoint = file:/c/state, opId = 0], Append, 2
   +- *(4) HashAggregate(keys=[window#9, word#34], functions=[merge_count(1)])
      +- StateStoreRestore [window#9, word#34], state info [ checkpoint = file:/c/state], 2
         +- *(3) HashAggregate(keys=[window#9, word#34], functions=[partial_count(1)])
            +- *(3) Project [window#9, word#34]
               +- {exchange}
                  +- *(2) Filter isnotnull(ts#33)
                     +- {below}
                        +- FileScan json
"""
JOIN = """\
StreamingSymmetricHashJoin [word#140], [word2#47], Inner, state info [ checkpoint = file:/c ], 2
:- {left}
:  +- *(2) Filter isnotnull(ts#139)
:     +- EventTimeWatermark ts#139: timestamp, 10 seconds
+- *(5) Project [ts#42 AS ts2#46, word#43 AS word2#47]
   +- {right}
      +- *(4) Filter isnotnull(ts#42)
"""


@pytest.mark.parametrize(
    ("exchange", "below", "right"),
    [
        (OURS, "Scan", True),
        (SPARKS, OURS, False),
        ("Union", "Scan", False),
        (OURS, SPARKS, True),
    ],
)
def test_the_last_exchange_before_the_state_counts(exchange, below, right):
    """Spark's own has another layout; what lies behind ours does not matter."""
    assert lies_by_key(AGGREGATE.format(exchange=exchange, below=below)) == right


@pytest.mark.parametrize(
    ("left", "right", "holds"), [(OURS, OURS, True), (OURS, SPARKS, False), (SPARKS, OURS, False)]
)
def test_both_sides_of_a_join_count(left, right, holds):
    """One side that was moved about is enough to tear keys apart."""
    assert lies_by_key(JOIN.format(left=left, right=right)) == holds


def test_a_plan_without_state_has_none_by_its_key():
    """Something that is not understood is never taken for right."""
    assert not lies_by_key("*(1) Project [a]\n+- Scan")
