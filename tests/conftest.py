"""Fixtures that every room's tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from actors.simulation import SimulatedCluster

SIMULATED = "tests/faults/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several workers run the tests, those of a file stay together, as they share what they started; seeded runs
    start nothing, and are dealt to all workers.
    """
    for item in items:
        file = item.nodeid.partition("::")[0]
        if not file.startswith(SIMULATED):
            item.add_marker(pytest.mark.xdist_group(file))


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
