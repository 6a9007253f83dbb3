"""Several steps of one kind at once: what each yields goes together with what the others yield."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from kcm.actors.reconciliation import RetryQuietly, Step
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import CommandError
from kcm.runtime.tables.lister import UnreadableError

MOST = 500  # steps that are under way at once
FAILURES = (CommandError, RetryQuietly, UnreadableError)  # what a step raises of its object, and not of our bugs


def abreast(steps: Iterable[Step[Any]]) -> Step[list[Exception]]:
    """Take all steps to their end: the first command of each goes together, then the second, …; returns what they
    raised, in their order.
    """
    failures: dict[int, Exception] = {}
    under_way: dict[int, tuple[Step[Any], Any]] = {i: (one, None) for i, one in enumerate(steps)}
    while under_way:
        commands: list[Command] = []
        waiting: dict[int, tuple[Step[Any], slice | int]] = {}
        for i, (one, outcome) in under_way.items():
            try:
                yielded = one.send(outcome)
                while not isinstance(yielded, Command | list):
                    yield yielded
                    yielded = one.send(None)
            except StopIteration:
                continue
            except FAILURES as err:
                failures[i] = err
                continue
            first = len(commands)
            if isinstance(yielded, list):
                commands += yielded
                waiting[i] = one, slice(first, len(commands))
            else:
                commands.append(yielded)
                waiting[i] = one, first
        outcomes = (yield commands) if commands else []
        under_way = {i: (one, outcomes[where]) for i, (one, where) in waiting.items()}
    return [failures[i] for i in sorted(failures)]


def slow_start_abreast(steps: Iterable[Step[Any]]) -> Step[None]:
    """In batches of 1, 2, 4, … and at most MOST; raises the first failure of a batch, which is then the last.

    Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set_control.go, slowStartBatch.
    """
    left = iter(steps)
    size = 1
    while batch := list(islice(left, size)):
        failures = yield from abreast(batch)
        if failures:
            raise failures[0]
        size = min(2 * size, MOST)
