"""Runs several generators concurrently: the commands that they yield are sent together."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from kcm.actors.reconciliation import RetryQuietly, Step
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command
from kcm.runtime.tables.lister import UnreadableError

MAX_CONCURRENT = 500  # steps
FAILURES = (CommandError, RetryQuietly, UnreadableError)  # failures that concern one object; others are bugs


def run_together(steps: Iterable[Step[Any]]) -> Step[list[Exception]]:
    """Run all steps to completion, and return the exceptions of failed steps in the order of the steps.

    The first commands of all steps are sent together, then their second commands, and so on.
    """
    failures: dict[int, Exception] = {}
    running: dict[int, tuple[Step[Any], Any]] = {i: (step, None) for i, step in enumerate(steps)}
    while running:
        commands: list[Command] = []
        waiting: dict[int, tuple[Step[Any], slice | int]] = {}
        for i, (step, outcome) in running.items():
            try:
                yielded = step.send(outcome)
                while not isinstance(yielded, Command | list):
                    yield yielded
                    yielded = step.send(None)
            except StopIteration:
                continue
            except FAILURES as err:
                failures[i] = err
                continue
            first = len(commands)
            if isinstance(yielded, list):
                commands += yielded
                waiting[i] = step, slice(first, len(commands))
            else:
                commands.append(yielded)
                waiting[i] = step, first
        outcomes = (yield commands) if commands else []
        running = {i: (step, outcomes[position]) for i, (step, position) in waiting.items()}
    return [failures[i] for i in sorted(failures)]


def run_with_slow_start(steps: Iterable[Step[Any]]) -> Step[None]:
    """Run the steps in batches of 1, 2, 4, …, up to MAX_CONCURRENT.

    Raises the first failure of a batch once that batch has finished; later batches are not started.

    Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set_control.go, slowStartBatch.
    """
    left = iter(steps)
    size = 1
    while batch := list(islice(left, size)):
        failures = yield from run_together(batch)
        if failures:
            raise failures[0]
        size = min(2 * size, MAX_CONCURRENT)
