"""Reconstruction of the state that a controller may have known when it submitted a command.

A controller may decide by an old state, because its informer caches may be behind the server. Invariants do not excuse
this by a grace period, but by versions: a cache has reached a version, and ValueHistory contains the state at that
version.

The start of a sync cannot be observed, only its commands. So commands about one owner that may belong to the same sync
are combined into an InferredSync: the last of these commands may still be based on the state that was known when the
first was submitted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from msgspec import Struct

from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.commands import Command
from kcm.runtime.faults.vocabulary import Fault, FaultKind

Value = TypeVar("Value")


class ValueHistory(Generic[Value]):
    """History of one property of many objects: its values, each with the version since which the object had it."""

    def __init__(self) -> None:
        self._versions: dict[str, list[int]] = {}
        self._values: dict[str, list[Value]] = {}

    def note(self, uid: str, version: int, value: Value) -> None:
        """Record the value that an object has from this version on. Versions of an object must ascend."""
        values = self._values.setdefault(uid, [])
        if not values or values[-1] != value:
            values.append(value)
            self._versions.setdefault(uid, []).append(version)

    def between(self, uid: str, first: int, last: int) -> list[Value]:
        """Return the values that the object had from version `first` to version `last`, both included."""
        versions = self._versions.get(uid, [])
        return self._values.get(uid, [])[max(0, bisect_right(versions, first) - 1) : bisect_right(versions, last)]

    def since(self, uid: str) -> int:
        """Return the version of the object's first recorded value. Raises KeyError for an unknown object."""
        return self._versions[uid][0]


def handling_delay(faults: Iterable[Fault]) -> float:
    """Return the longest time, in seconds, for which the faults of a plan can delay the handling of a message."""
    seconds = 0.0
    for fault in faults:
        if fault.kind in (FaultKind.ACTOR_HUNG, FaultKind.MESSAGE_DELAYED):
            seconds += fault.seconds
        elif fault.kind is FaultKind.PROCESS_PAUSED and fault.until is not None:
            seconds += fault.until - fault.start
    return seconds


class InferredSync(Struct, Generic[Value]):
    """Commands about one owner that may belong to the same sync.

    begun: state that the invariant recorded when the first command was submitted.
    open: number of commands without an outcome.
    last: virtual time of the latest submission or outcome.
    """

    begun: Value
    open: int
    last: float


class InferredSyncs(Generic[Value]):
    """Assigns submitted commands to inferred syncs, for every sender in every process.

    A command begins a new sync if no earlier command about its owner is without an outcome, and if the latest outcome
    is older than the faults of the run can delay a message.
    """

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._delay = handling_delay(cluster.injector.faults)
        self._syncs: dict[tuple[str, str, str], InferredSync[Value]] = {}  # (process, sender, uid of the owner)
        self._open: dict[int, InferredSync[Value]] = {}  # by the id of a command without an outcome
        self._incarnations: dict[tuple[str, str], int] = {}  # (process, sender) → latest admitted incarnation

    def submitted(
        self, process: str, sender: str, owner: str, commands: Iterable[Command], begin: Callable[[], Value]
    ) -> Value:
        """Record that commands about an owner were submitted, and return the state at the beginning of their sync.

        begin: returns the present state; called if the commands begin a new sync.
        """
        now = self._clock.monotonic()
        sync = self._syncs.get((process, sender, owner))
        if sync is None or (not sync.open and now > sync.last + self._delay):
            sync = self._syncs[process, sender, owner] = InferredSync(begin(), 0, now)
        for command in commands:
            sync.open += 1
            self._open[id(command)] = sync
        sync.last = now
        return sync.begun

    def settled(self, command: Command) -> Value | None:
        """Record the outcome of a command. Returns the state at the beginning of its sync; None if that is unknown."""
        sync = self._open.pop(id(command), None)
        if sync is None:
            return None
        sync.open -= 1
        sync.last = self._clock.monotonic()
        return sync.begun

    def admitted(self, process: str, sender: str, incarnation: int, lost: Iterable[Command]) -> bool:
        """Record that the dispatcher admitted an incarnation of a sender. Returns whether the incarnation is new.

        A new incarnation has not observed any state yet. If the incarnation is not new, the
        dispatcher was restarted; then the `lost` commands, which have no outcome, count as rejected.
        """
        if self._incarnations.get((process, sender)) == incarnation:
            for command in lost:
                self.settled(command)
            return False
        self._incarnations[process, sender] = incarnation
        self._end(process, sender)
        return True

    def started(self, process: str) -> None:
        """Record the start or restart of a process: no sync of its previous incarnation continues."""
        for sender in [sender for of_process, sender in self._incarnations if of_process == process]:
            del self._incarnations[process, sender]
        self._end(process)

    def _end(self, process: str, sender: str | None = None) -> None:
        for sync in [sync for sync in self._syncs if sync[0] == process and sender in (None, sync[1])]:
            del self._syncs[sync]
