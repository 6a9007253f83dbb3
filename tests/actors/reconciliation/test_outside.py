"""External calls in reconcilers: refusal of wrong arguments at the call, and results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.reconciliation import answer_of, call, outside
from kcm.protocols.codec import decode, encode, pack, unpack
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import in_words
from kcm.protocols.messages.outcomes import Done, Outcome, Raised, Refused, Unknown
from kcm.runtime.calls.prepared_calls import carry_out, raised


class Directory:
    def __init__(self) -> None:
        self.removed: list[str] = []

    def remove(self, uid: str, *, wait: bool = False) -> dict[str, Any]:
        if uid in self.removed:
            raise KeyError(uid)
        self.removed.append(uid)
        return {"uid": uid, "wait": wait}

    async def find(self, uid: str) -> bool:
        return uid in self.removed

    def __call__(self) -> None:
        return None


def answered(step: Any, outcome: Outcome) -> Any:
    next(step)
    try:
        step.send(outcome)
    except StopIteration as end:
        return end.value
    raise AssertionError("it did not end")


def test_call_contains_function_and_arguments() -> None:
    directory = Directory()
    command = outside(directory.remove, "u1", wait=True, timeout=10, key="default/a")
    assert (command.function, command.timeout, command.key) == ("Directory.remove", 10.0, "default/a")
    assert unpack(command.arguments) == [["u1"], {"wait": True}]
    assert in_words(command) == "call Directory.remove default/a"
    assert directory.removed == [], "nothing is called here"


def test_the_function_stays_in_the_process() -> None:
    command = outside(Directory().remove, "u1")
    assert decode(encode(command)) == Call("Directory.remove", command.arguments, 30.0)


@pytest.mark.parametrize(
    "function, name",
    [
        (functools.partial(Directory.remove, Directory()), "Directory.remove"),
        (Directory(), "Directory"),
        (len, "len"),
        (lambda: 1, "<lambda>"),
    ],
)
def test_functions_are_named_as_people_know_them(function: Callable[..., Any], name: str) -> None:
    assert outside(function).function == name


def test_async_functions_are_known_as_such() -> None:
    assert outside(Directory().find, "u1").is_async
    assert outside(functools.partial(Directory().find, "u1")).is_async
    assert not outside(Directory().remove, "u1").is_async


@pytest.mark.parametrize(
    "make, error, text",
    [
        (
            lambda: call(Directory().remove, object()),
            TypeError,
            "argument 1 of Directory.remove: a object is no",
        ),
        (lambda: call(Directory().remove, uid=[{1}]), TypeError, "uid of Directory.remove: a set is no plain"),
        (lambda: call(len, 1 << 70), ValueError, "argument 1 of len: a number of more than 64 bits"),
        (lambda: call(len, "a", timeout=0), ValueError, "timeout of call takes a number above 0, not 0"),
        (lambda: call(3), TypeError, "not what it returned: 3"),  # type: ignore[call-overload]
        (lambda: call(len, "a", but=KeyError), TypeError, "but is a tuple of .* not <class 'KeyError'>"),
        (lambda: call(len, "a", but=(KeyError("a"),)), TypeError, "but is a tuple of .* not .KeyError"),
        (lambda: call(len, "a", but=(Done,)), TypeError, "but is a tuple of exception types and outcome types"),
    ],
)
def test_invalid_function_or_argument_is_refused_at_once(
    make: Callable[[], object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        make()


def test_result_of_the_function_is_returned() -> None:
    assert answered(call(Directory().remove, "u1"), Done(pack({"uid": "u1"}))) == {"uid": "u1"}
    assert answer_of(Done(pack((1, None)))) == [1, None]


RAISED = raised(KeyError("u1"))


@pytest.mark.parametrize(
    "outcome, text",
    [
        (RAISED, "call Directory.remove: Raised: KeyError: 'u1'"),
        (Unknown("late"), "call Directory.remove: Unknown: late"),
        (Refused("no lease"), "call Directory.remove: Refused: no lease"),
    ],
)
def test_exception_or_unknown_outcome_ends_the_reconciliation(outcome: Outcome, text: str) -> None:
    with pytest.raises(CommandError) as caught:
        answered(call(Directory().remove, "u1"), outcome)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "outcome, but",
    [
        (RAISED, (KeyError,)),
        (RAISED, (LookupError,)),
        (RAISED, (Exception,)),
        (RAISED, (Raised,)),
        (Unknown(), (Unknown,)),
    ],
)
def test_an_author_may_let_some_failures_through(outcome: Outcome, but: tuple[Any, ...]) -> None:
    assert answered(call(Directory().remove, "u1", but=but), outcome) == outcome


def test_other_failures_are_raised_all_the_same() -> None:
    with pytest.raises(CommandError):
        answered(call(Directory().remove, "u1", but=(ValueError, Unknown)), RAISED)


def test_raised_outcome_contains_the_place_of_the_exception() -> None:
    directory = Directory()
    directory.removed.append("u1")
    outcome = carry_out(lambda: directory.remove("u1"), "Directory.remove")
    assert isinstance(outcome, Raised)
    assert outcome.kinds == ("KeyError", "LookupError")
    assert outcome.message == "KeyError: 'u1'"
    assert outcome.where.startswith("test_outside.py:")
    assert outcome.where.endswith("in remove")
    assert decode(encode(outcome)) == outcome


def test_unsupported_result_is_a_failure_that_names_its_type() -> None:
    outcome = carry_out(Directory, "make")
    assert isinstance(outcome, Raised)
    assert outcome.message.startswith("TypeError: make returned what cannot be passed on: a Directory is no")
    outcome = carry_out(lambda: Directory().find("u1"), "find")
    assert isinstance(outcome, Raised)
    assert outcome.message == "TypeError: find returned a coroutine: call the async function itself"
