"""What tests on a session in their own process share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def spark():
    from holdfast.runtime.spark.start.session import start_session

    session = start_session("tests")
    yield session
    session.stop()
