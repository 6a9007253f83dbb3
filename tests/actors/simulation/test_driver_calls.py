"""The driver of reconcilers makes external calls."""

from __future__ import annotations

import asyncio

import pytest

from kcm.actors.reconciliation import Reconciliation, call
from kcm.actors.simulation.driver import Bench, drive, returned
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Unknown
from kcm.protocols.objects import Key
from kcm.protocols.resources import PODS
from kcm.runtime.calls.prepared_calls import raised


class Asking:
    def __init__(self) -> None:
        self.answers: list[object] = []

    def double(self, number: int) -> int:
        return 2 * number

    async def double_slowly(self, number: int) -> int:
        await asyncio.sleep(3600.0)
        return 2 * number

    async def wait(self) -> None:
        await asyncio.Event().wait()

    def reconcile(self, _key: Key) -> Reconciliation:
        self.answers.append((yield from call(self.double, 1)))
        self.answers.append((yield from call(self.double_slowly, 2)))


class Waiting(Asking):
    def reconcile(self, _key: Key) -> Reconciliation:
        yield from call(self.wait)


def test_calls_are_made_synchronously() -> None:
    bench, asking = Bench({PODS: ()}), Asking()
    drive(asking, "d/a", bench.accept, tables=bench.tables)
    assert asking.answers == [2, 4]


def test_endless_wait_raises_runtime_error() -> None:
    bench = Bench({PODS: ()})
    with pytest.raises(RuntimeError, match=r"carry_out_async.* waits, but no timer is pending"):
        drive(Waiting(), "d/a", bench.accept, tables=bench.tables)


def test_answers_are_given_by_hand() -> None:
    bench, asking = Bench({PODS: ()}), Asking()
    drive(asking, "d/a", lambda _command: returned([7]), tables=bench.tables)
    assert asking.answers == [[7], [7]]
    for failure in (raised(KeyError("u1")), Unknown("late")):
        driven = drive(Asking(), "d/a", lambda _c, f=failure: f, tables=bench.tables, raises=CommandError)  # type: ignore[misc]
        assert isinstance(driven.error, CommandError)
        assert driven.error.failure == failure
