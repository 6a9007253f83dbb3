"""Fixtures of all tests, and their distribution to workers."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable, Generator, Iterator

import pytest
import structlog
from hypothesis import settings
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger
from xdist.remote import Producer

from kcm import testing
from kcm.runtime.process.memory import collect_rarely
from tests.support.hang_reporter import HangReporter
from tests.support.work_units import DurationRecorder, UnitScheduling, sort_by_duration

# Compiling the tests with their rewritten assertions takes longer than collecting them, so the result is kept even if
# PYTHONDONTWRITEBYTECODE is set. The variable still applies to the processes that tests start.
sys.dont_write_bytecode = False

# The same examples in every run, so that only changes cause failures; and no deadline, as machines differ in speed.
settings.register_profile("kcm", deadline=None, derandomize=True)
settings.load_profile("kcm")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help="record how long each file of tests takes")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(HangReporter())
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationRecorder())


@pytest.hookimpl(optionalhook=True)  # unknown where xdist is switched off
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer | None) -> UnitScheduling:
    return UnitScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # a worker of xdist
        sort_by_duration(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # The collected tests, which live until the end, are moved out of the garbage collector's reach.
    gc.disable()
    try:
        return (yield)
    finally:
        collect_rarely()


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Undo the logging setup of a command that the test ran in this process."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        logging.getLogger().handlers = [
            handler
            for handler in logging.getLogger().handlers
            if not type(handler).__module__.startswith("kcm.runtime.logs")
        ]


@pytest.fixture
def logs() -> LogCapture:
    """Capture of the log lines of the test, in `logs.entries`."""
    return LogCapture()


@pytest.fixture
def log(logs: LogCapture) -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.wrap_logger(None, processors=[logs])
    return logger


@pytest.fixture
def cluster(log: FilteringBoundLogger) -> testing.SimulatedCluster:
    """A simulated cluster without a manager."""
    return testing.SimulatedCluster(log=log)


@pytest.fixture
def make_cluster(log: FilteringBoundLogger) -> Callable[..., testing.SimulatedCluster]:
    """Constructor of simulated clusters, for tests with their own seed or latency."""
    return lambda **arguments: testing.SimulatedCluster(log=log, **arguments)
