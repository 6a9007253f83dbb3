from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kcm.actors.controllers.shared.status import without_zeros, write_status
from kcm.actors.simulation.driver import Bench, Driven, bodies, drive, failing
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Get, Update
from kcm.protocols.messages.outcomes import Conflict, Forbidden, NotFound, Outcome, Refused, ServerFailure, Unknown
from kcm.protocols.objects import Object
from kcm.protocols.resources import REPLICASETS
from kcm.runtime.tables.frozen import freeze
from tests.support.failures import said

OBJECT = freeze(
    {
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-of-web", "resourceVersion": "1"},
        "spec": {"replicas": 1},
        "status": {"replicas": 0},
    }
)
STATUS = {"replicas": 1}


class Writer:
    def __init__(self, **options: int) -> None:
        self.options, self.answer = options, None

    def reconcile(self, key: str) -> Iterator[Any]:
        self.answer = yield from write_status(REPLICASETS, OBJECT, STATUS, **self.options)


def write(
    answer_for: Callable[..., Any] = lambda bench: bench.accept,
    *,
    live: Object | None = OBJECT,
    raises: type[Any] | None = None,
    **options: int,
) -> tuple[Driven, bool | None]:
    bench = Bench({REPLICASETS: [live] if live is not None else []})
    writer = Writer(**options)
    driven = drive(writer, "default/web", answer_for(bench), tables=bench.tables, raises=raises)
    return driven, writer.answer


def refusing(outcome: Outcome, times: int) -> Callable[..., Any]:
    """Return a function that fails the first PUTs with this outcome, and accepts later PUTs."""

    def answer_for(bench: Bench) -> Callable[..., Any]:
        left = [outcome] * times
        return lambda command: left.pop() if isinstance(command, Update) and left else bench.accept(command)

    return answer_for


def test_status_is_written_into_the_cached_object() -> None:
    driven, written = write()
    (command,) = driven.commands
    assert (command.key, command.subresource) == ("default/web", "status")
    assert bodies(driven, Update) == [{"apiVersion": "apps/v1", "kind": "ReplicaSet", **OBJECT, "status": STATUS}]
    assert written is True


@pytest.mark.parametrize("outcome", [Conflict("newer"), ServerFailure("no"), Unknown("timed out")])
def test_failed_write_is_repeated_on_the_live_object(outcome: Outcome) -> None:
    live = {**OBJECT, "metadata": {**OBJECT["metadata"], "resourceVersion": "9"}, "spec": {"replicas": 3}}
    driven, written = write(refusing(outcome, 1), live=live)
    assert [type(command) for command in driven.commands] == [Update, Get, Update]
    last = bodies(driven, Update)[-1]
    assert (last["metadata"]["resourceVersion"], last["spec"], last["status"]) == ("9", {"replicas": 3}, STATUS)
    assert written is True


def test_status_whose_response_was_lost_is_not_written_again() -> None:
    driven, written = write(refusing(Unknown("timed out"), 1), live={**OBJECT, "status": STATUS})
    assert [type(command) for command in driven.commands] == [Update, Get]
    assert written is True


def test_second_failure_is_raised() -> None:
    driven, _ = write(
        lambda bench: failing(after=0, outcome=Conflict("newer"), to=Update, otherwise=bench.accept),
        raises=CommandError,
    )
    assert [type(command) for command in driven.commands] == [Update, Get, Update]
    assert said(driven.error) == "newer"


def test_first_failure_is_raised_without_retries() -> None:
    driven, _ = write(refusing(Conflict("newer"), 1), raises=CommandError, retries=0)
    assert [type(command) for command in driven.commands] == [Update]


def test_refused_status_write_is_not_retried() -> None:
    driven, _ = write(refusing(Refused("the lease is lost"), 1), raises=CommandError)
    assert [type(command) for command in driven.commands] == [Update]


def test_failed_live_read_is_raised() -> None:
    driven, _ = write(
        lambda _bench: lambda command: Conflict("newer") if isinstance(command, Update) else Forbidden("no"),
        raises=CommandError,
    )
    assert said(driven.error) == "no"


def test_deleted_object_gets_no_status() -> None:
    assert write(refusing(NotFound(), 1))[1] is False
    assert write(refusing(Conflict("newer"), 1), live=None)[1] is False


def test_replaced_object_gets_no_status() -> None:
    other = {**OBJECT, "metadata": {**OBJECT["metadata"], "uid": "another"}}
    driven, written = write(refusing(Conflict("newer"), 1), live=other)
    assert [type(command) for command in driven.commands] == [Update, Get]
    assert written is False


def test_only_listed_fields_are_omitted_when_zero() -> None:
    assert without_zeros({"a": 0, "b": 0, "c": 1, "d": []}, "a", "c", "d") == {"b": 0, "c": 1, "d": []}
