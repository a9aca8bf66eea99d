"""What the loss of nodes costs: times over many failures."""

import warnings

import numpy as np
import pytest

from holdfast.predict.losses import percentile

pytestmark = pytest.mark.unit


def test_failures_that_never_end_are_infinite_without_a_warning():
    """A percentile between two of them is none of numpy's invalid values, nor said to be one."""
    table = np.array([[1.0, 1.0], [3.0, np.inf], [np.inf, np.inf]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert percentile(table, 50).tolist() == [3.0, np.inf]
        assert percentile(table, 25).tolist() == [2.0, np.inf]
        assert percentile(table, 75).tolist() == [np.inf, np.inf]
