"""Steps that carry out commands. Use them with `yield from`, or `await` in a coroutine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from kcm.actors.reconciliation.reconciler import Step, step
from kcm.protocols.arguments import check_number
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import FAILURES, Done, Outcome
from kcm.protocols.objects import Object, decode_object

T = TypeVar("T")


@step
def perform(command: Command) -> Step[Outcome]:
    """Send one command and return its outcome."""
    outcome: Outcome = yield command
    return outcome


@step
def together(commands: Sequence[Command]) -> Step[list[Outcome]]:
    """Send commands concurrently, and return their outcomes in the same order."""
    commands = _listed("together", commands)
    if not commands:
        return []
    outcomes: list[Outcome] = yield commands
    return outcomes


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield slices of at most `size` items, in order."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@step
def in_batches(commands: Sequence[Command], size: int) -> Step[list[Outcome]]:
    """Send commands, at most `size` at a time, and return their outcomes in the same order."""
    check_number("size of in_batches", size, least=1, whole=True)
    outcomes: list[Outcome] = []
    for batch in batches(_listed("in_batches", commands), size):
        outcomes += yield from together(batch)
    return outcomes


@step
def must_all(commands: Sequence[Command], *, but: tuple[type[Outcome], ...] = ()) -> Step[list[Outcome]]:
    """Send commands concurrently. Raise CommandError for the first outcome that is neither Done nor one of `but`."""
    commands = _listed("must_all", commands)
    _check_but("must_all", but)
    outcomes = yield from together(commands)
    for command, outcome in zip(commands, outcomes, strict=True):
        if not (isinstance(outcome, Done) or isinstance(outcome, but)):  # noqa: SIM101 (mypy follows two, not one)
            raise CommandError(command, outcome)
    return outcomes


def _listed(step: str, commands: Iterable[Command]) -> list[Command]:
    """Return the commands as a list. Raises TypeError for a single command."""
    if not isinstance(commands, Iterable):
        raise TypeError(f"{step} takes a list of commands, not {commands!r:.80}")
    return list(commands)


def _check_but(step: str, but: object) -> None:
    """Raise TypeError for an invalid `but`, which would otherwise raise only at the first failure."""
    if but != () and not (
        isinstance(but, tuple) and all(isinstance(outcome, type) and issubclass(outcome, FAILURES) for outcome in but)
    ):
        raise TypeError(f"but of {step} is a tuple of outcomes, as in but=(NotFound,), not {but!r:.80}")


def is_done(outcome: Outcome) -> bool:
    return isinstance(outcome, Done)


@step
def must(command: Command, *, but: tuple[type[Outcome], ...] = ()) -> Step[Outcome]:
    """Send one command. Raise CommandError for an outcome that is neither Done nor one of `but`."""
    _check_but("must", but)
    outcome: Outcome = yield command
    if isinstance(outcome, Done) or isinstance(outcome, but):  # noqa: SIM101 (mypy follows two, not one)
        return outcome
    raise CommandError(command, outcome)


@step
def must_object(command: Command) -> Step[Object]:
    """Send one command and return the resulting object. Raises CommandError for every outcome except Done."""
    outcome = yield from must(command)
    assert isinstance(outcome, Done)
    return decode_object(outcome.body)


@step
def slow_start(
    commands: Sequence[Command],
    *,
    initial: int = 1,
    succeeded: Callable[[Outcome], bool] = is_done,
    report: Callable[[Command, Outcome], Iterable[Record]] = lambda _command, _outcome: (),
) -> Step[list[Outcome]]:
    """Send commands in batches of 1, 2, 4, …; stop after a batch in which a command failed.

    Returns the outcomes in order: fewer than the commands if it stopped.

    initial: size of the first batch.
    succeeded: decides whether an outcome is a success.
    report: called for each outcome in order, when its batch is complete; returns events to record.

    Source: kubernetes v1.36 pkg/controller/replicaset/replica_set.go, slowStartBatch.
    """
    check_number("initial of slow_start", initial, least=1, whole=True)
    commands = _listed("slow_start", commands)
    outcomes: list[Outcome] = []
    size = initial
    while len(outcomes) < len(commands):
        tried = commands[len(outcomes) : len(outcomes) + size]
        batch = yield from together(tried)
        for command, outcome in zip(tried, batch, strict=True):
            yield from report(command, outcome)
        outcomes += batch
        if not all(succeeded(outcome) for outcome in batch):
            break
        size *= 2
    return outcomes
