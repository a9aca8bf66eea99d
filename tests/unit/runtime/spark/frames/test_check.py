"""What is said of operators that Spark refuses, without one."""

import pytest

from holdfast.runtime.spark.frames.check import mode_hint

pytestmark = pytest.mark.unit


def test_an_aggregate_that_no_watermark_closes_is_told_what_to_write():
    """Spark only says that the mode is not supported."""
    said = "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append. "
    said += "This output mode is not supported for streaming aggregations without watermark"
    assert 'output="update"' in mode_hint("append", said)
    assert mode_hint("append", "Sorting is not supported") == ""
    assert mode_hint("update", said) == ""
