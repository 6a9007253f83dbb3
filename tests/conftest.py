"""Fixtures that every room's tests share."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable, Generator, Iterator

import pytest
import structlog
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from kcm.actors.simulation import SimulatedCluster

# To compile the tests with their rewritten assertions takes longer than to collect them: it is done once, and kept
# even where PYTHONDONTWRITEBYTECODE says otherwise. Processes that tests start go by that still.
sys.dont_write_bytecode = False

SIMULATED = "tests/faults/"


class FilesStayTogether(LoadScopeScheduling):
    """A file's tests run on one worker, since they share what they started; seeded runs are dealt to all workers.

    xdist's own `loadgroup` writes the group into a name that pytest 9.2 does not read any more.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.startswith(SIMULATED) else file


@pytest.hookimpl(optionalhook=True)  # unknown where xdist is switched off
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer | None) -> FilesStayTogether:
    return FilesStayTogether(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay until the end: the garbage collector, which would look at them again and again, leaves
    them out."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def logging_left_alone() -> Iterator[None]:
    """A command that a test runs in this process sets up logging for all of it: the next test must not find that."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        logging.getLogger().handlers = [
            one for one in logging.getLogger().handlers if not type(one).__module__.startswith("kcm.runtime.logs")
        ]


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
