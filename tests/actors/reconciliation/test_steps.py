"""Steps that send many commands."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.reconciliation import batches, delete, in_batches, must_all
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome
from kcm.protocols.resources import PODS

COMMANDS = [delete(PODS, f"d/p{number}") for number in range(5)]
DONE = Done(b"{}")


def run(step: Any, *answers: list[Outcome]) -> tuple[list[list[Command]], Any]:
    """Run a step with these outcomes; return the commands that it yielded, and its result."""
    sent, left = [], iter(answers)
    try:
        yielded = next(step)
        while True:
            sent.append(yielded)
            yielded = step.send(next(left))
    except StopIteration as end:
        return sent, end.value


def test_batches_are_in_order_and_the_last_may_be_smaller() -> None:
    assert list(batches("abcde", 2)) == ["ab", "cd", "e"]
    assert list(batches("", 2)) == []


def test_commands_in_batches_have_their_outcomes_in_order() -> None:
    first, second, third = [DONE, NotFound("a")], [NotFound("b"), DONE], [NotFound("c")]
    sent, outcomes = run(in_batches(COMMANDS, 2), first, second, third)
    assert sent == [COMMANDS[:2], COMMANDS[2:4], COMMANDS[4:]]
    assert outcomes == [*first, *second, *third]


def test_commands_that_must_succeed_return_what_is_allowed() -> None:
    outcomes = [DONE, NotFound("a"), DONE, Conflict("b"), DONE]
    assert run(must_all(COMMANDS, but=(NotFound, Conflict)), outcomes) == ([COMMANDS], outcomes)


def test_commands_that_must_succeed_raise_the_first_failure() -> None:
    with pytest.raises(CommandError) as raised:
        run(must_all(COMMANDS, but=(Conflict,)), [DONE, Conflict("a"), NotFound("b"), NotFound("c"), DONE])
    assert (raised.value.command, raised.value.failure) == (COMMANDS[2], NotFound("b"))


def test_empty_batch_sends_no_commands() -> None:
    assert run(must_all([])) == ([], [])
    assert run(in_batches([], 2)) == ([], [])
