"""Invariant of exceptions: the code of controllers raises only CommandError and other expected exceptions.

This includes actors, reconcilers, periodic passes, and the functions of watches and indexes.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.controller.readiness import StaleTableError
from kcm.actors.engine.controller.retries import SyncTimeoutError
from kcm.actors.reconciliation.actor_names import controller_of
from kcm.actors.reconciliation.failures import Retry, RetryQuietly, TerminalError
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Fail
from kcm.protocols.messages.command_error import CommandError
from kcm.runtime.faults.vocabulary import InjectedError
from kcm.runtime.tables.tables import TableMissingError

EXPECTED = (
    CommandError,
    InjectedError,
    StaleTableError,
    SyncTimeoutError,
    TableMissingError,
    Retry,
    RetryQuietly,
    TerminalError,
)
Allowed = Mapping[str, tuple[type[BaseException], ...]]  # by name of the controller: exceptions that it may raise


class RaisedException(NamedTuple):
    """Exception that was raised in a process.

    at: virtual seconds.
    actor: name of the actor.
    what: function that raised it, as in ActorSystem.raised.
    key: key that was reconciled; "" for none.
    """

    at: float
    process: str
    actor: str
    what: str
    key: str
    error: BaseException


class RaisedExceptions:
    """Recorder of the exceptions in all processes. Unexpected exceptions are violations.

    counts: number of exceptions by actor and function.
    latest: latest exception by actor and function.
    """

    name = "only expected exceptions are raised"

    def __init__(self, cluster: SimulatedCluster, *, allowed: Allowed, fail: Fail) -> None:
        """Attach the recorder to the cluster. Must be called before any process starts.

        allowed: exceptions that each controller may raise. Informers may raise all of them.
        fail: called with a text for each unexpected exception.
        """
        self.counts: Counter[tuple[str, str]] = Counter()
        self.latest: dict[tuple[str, str], RaisedException] = {}
        self._clock, self._allowed, self._fail = cluster.clock, allowed, fail
        self._of_anyone = tuple(error_type for types in allowed.values() for error_type in types)
        cluster.started.append(self._started)

    def _started(self, process: str, system: ControllerSystem) -> None:
        def see(actor: str, what: str, key: str, error: BaseException) -> None:
            raised = RaisedException(self._clock.monotonic(), process, actor, what, key, error)
            self.counts[actor, what] += 1
            self.latest[actor, what] = raised
            if not isinstance(error, (*EXPECTED, *self._allowed_of(actor))):
                self._fail(described(raised))

        system.actors.mishaps.append(see)

    def _allowed_of(self, actor: str) -> tuple[type[BaseException], ...]:
        controller = controller_of(actor)
        return self._of_anyone if controller is None else self._allowed.get(controller, ())

    def lines(self) -> Iterator[str]:
        """Yield the exceptions by actor and function: their count, and the latest one. The most recent comes last.

        Unexpected exceptions have a traceback.
        """
        for kind, raised in sorted(self.latest.items(), key=lambda item: item[1].at):
            yield f"{self.counts[kind]} times: {described(raised)} (the last, at {raised.at:.3f} s in {raised.process})"
            if not isinstance(raised.error, EXPECTED):
                text = "".join(traceback.format_exception(raised.error))
                yield from (f"    {line}" for line in text.splitlines())


def described(raised: RaisedException) -> str:
    """Return a description of an exception in one line, with the file and line where it was raised."""
    error = raised.error
    key = f" {raised.key}" if raised.key else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{raised.actor}, {raised.what}{key}: {text}{_place(error)}"


def _place(error: BaseException) -> str:
    if isinstance(error, CommandError) or error.__traceback__ is None:
        return ""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f" ({Path(last.filename).name}:{last.lineno}, in {last.name})"
