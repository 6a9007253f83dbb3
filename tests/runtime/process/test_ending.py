from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from runtime.process.ending import ended_by, on_signals

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", HANDLED)
def test_a_signal_asks_for_the_end(number: signal.Signals) -> None:
    ending = on_signals()
    assert not ending.is_set()
    signal.raise_signal(number)
    assert ending.is_set()


def test_who_is_started_with_nohup_outlives_the_terminal() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ending = on_signals()
    signal.raise_signal(signal.SIGHUP)
    assert not ending.is_set()


@pytest.mark.parametrize(
    "code, words",
    [
        (0, "ended (exit code 0)"),
        (1, "ended (exit code 1)"),
        (-9, "was killed by SIGKILL"),
        (-99, "was killed by signal 99"),
    ],
)
def test_how_a_process_ended_is_named(code: int, words: str) -> None:
    assert ended_by(code) == words
