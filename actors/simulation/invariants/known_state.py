"""State that a decision may rest on: the history by version, and the state known when the reconciliation began.

Stale reads are explained by versions, not by a grace period: a table has reached a version, and the history contains
the state at that version. The start of a reconciliation cannot be observed, only its commands. So reconciliations of
one owner that may be the same are combined into a streak: its last commands may still rest on the state that was known
when its first commands were submitted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.commands import Command
from kcm.runtime.faults.vocabulary import Fault, FaultKind

Value = TypeVar("Value")


class ValueHistory(Generic[Value]):
    """Former values of a property of each object, with the version since which the object had each value."""

    def __init__(self) -> None:
        self._versions: dict[str, list[int]] = {}
        self._values: dict[str, list[Value]] = {}

    def note(self, uid: str, version: int, value: Value) -> None:
        """Record the value since a version. Versions must ascend; an unchanged value is not recorded again."""
        values = self._values.setdefault(uid, [])
        if not values or values[-1] != value:
            values.append(value)
            self._versions.setdefault(uid, []).append(version)

    def between(self, uid: str, first: int, last: int) -> list[Value]:
        """Return the values from version `first` to version `last`, both included."""
        versions = self._versions.get(uid, [])
        return self._values.get(uid, [])[max(0, bisect_right(versions, first) - 1) : bisect_right(versions, last)]

    def since(self, uid: str) -> int:
        """Return the version of the object's first value. Raises KeyError if it has none."""
        return self._versions[uid][0]


def handling_delay(faults: Iterable[Fault]) -> float:
    """Return for how many seconds a fault plan can keep a message in a mailbox."""
    seconds = 0.0
    for fault in faults:
        if fault.kind in (FaultKind.ACTOR_HUNG, FaultKind.MESSAGE_DELAYED):
            seconds += fault.seconds
        elif fault.kind is FaultKind.PROCESS_PAUSED and fault.until is not None:
            seconds += fault.until - fault.start
    return seconds


@dataclass(slots=True)
class InferredSync(Generic[Value]):
    """Commands that may belong to one reconciliation (see the module's docstring).

    begun: the state that the invariant recorded at the beginning.
    open: number of commands without an outcome.
    last: virtual time of the latest submission or outcome.
    """

    begun: Value
    open: int
    last: float


class InferredSyncs(Generic[Value]):
    """Open streaks of every sender in every process."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._clock = cluster.clock
        self._delay = handling_delay(cluster.injector.faults)
        self._syncs: dict[tuple[str, str, str], InferredSync[Value]] = {}  # (process, sender, uid of the owner)
        self._open: dict[int, InferredSync[Value]] = {}  # by the id of a command without an outcome
        self._incarnations: dict[tuple[str, str], int] = {}  # (process, sender) → latest admitted incarnation

    def submitted(
        self, process: str, sender: str, owner: str, commands: Iterable[Command], begin: Callable[[], Value]
    ) -> Value:
        """Record that commands about an owner are submitted, and return the state at the beginning of their streak.

        begin: returns the state, if the commands begin a new streak.
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
        """Record the outcome of a command. Returns the state at the beginning of its streak; None without a streak."""
        sync = self._open.pop(id(command), None)
        if sync is None:
            return None
        sync.open -= 1
        sync.last = self._clock.monotonic()
        return sync.begun

    def admitted(self, process: str, sender: str, incarnation: int, lost: Iterable[Command]) -> bool:
        """Record that the dispatcher admitted an incarnation; return whether it is new.

        A new incarnation starts without its predecessor's knowledge. Otherwise the dispatcher was restarted, and the
        `lost` commands count as rejected.
        """
        if self._incarnations.get((process, sender)) == incarnation:
            for command in lost:
                self.settled(command)
            return False
        self._incarnations[process, sender] = incarnation
        self._end(process, sender)
        return True

    def started(self, process: str) -> None:
        """Record the start of a process, which does not have the knowledge of its predecessor."""
        for sender in [sender for of_process, sender in self._incarnations if of_process == process]:
            del self._incarnations[process, sender]
        self._end(process)

    def _end(self, process: str, sender: str | None = None) -> None:
        for sync in [sync for sync in self._syncs if sync[0] == process and sender in (None, sync[1])]:
            del self._syncs[sync]
