"""Fixtures that every room's tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from actors.simulation import SimulatedCluster


@pytest.fixture
def logs() -> LogCapture:
    """What was logged during the test: `logs.entries`."""
    return LogCapture()


@pytest.fixture
def log(logs: LogCapture) -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.wrap_logger(None, processors=[logs])
    return logger


@pytest.fixture
def cluster(log: FilteringBoundLogger) -> SimulatedCluster:
    """A simulated cluster without a manager."""
    return SimulatedCluster(log=log)


@pytest.fixture
def make_cluster(log: FilteringBoundLogger) -> Callable[..., SimulatedCluster]:
    """For tests that need a seed or a latency of their own."""
    return lambda **arguments: SimulatedCluster(log=log, **arguments)
