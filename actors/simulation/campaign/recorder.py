"""Recording of a failed run, which is made while the run is repeated.

It contains all messages, in memory and optionally in journals, and the last sync of each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kcm.actors.app.system import ControllerSystem
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.last_syncs import KeyState, SyncLog
from kcm.protocols.codec import DecodeError, decode
from kcm.runtime.process.version import this_version
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.system.journal import JournalWriter, NumberedFrame, RecordedRun

LARGEST, FILES = 1 << 40, 1_000  # maximum bytes and number of files; each restart of a process begins a new file


class SentMessage(NamedTuple):
    """Message that an actor sent.

    at: virtual seconds.
    number: number of the message in its process.
    cause: number of the message that the sender was handling; 0 for none.
    frame: encoded message.
    """

    at: float
    process: str
    number: int
    cause: int
    sender: str
    to: str
    frame: bytes

    @property
    def message(self) -> Any:
        """Return the decoded message; None if it cannot be decoded."""
        try:
            return decode(self.frame)
        except DecodeError:
            return None


class Recording:
    """Messages and last syncs of a run. Must be attached to a cluster before any process starts.

    Raises JournalError if a journal cannot be written.

    journal: file for the journal of the process "manager"; journals of other processes are written to FILE-NAME.
        None to record in memory only.
    sent: all messages, in order.
    keys: state of each key at the end of the run.
    """

    def __init__(self, journal: Path | None = None) -> None:
        self.sent: list[SentMessage] = []
        self.keys: list[KeyState] = []
        self._syncs = SyncLog()
        self._journal = journal
        self._writers: dict[str, JournalWriter] = {}  # by process

    def attach(self, cluster: SimulatedCluster, *, seed: int) -> None:
        def started(process: str, system: ControllerSystem) -> None:
            names = [spec.name for spec in system.controllers]
            run = RecordedRun(version=this_version().kcm, seed=seed, arguments=(), controllers=names)
            writer = None
            if self._journal is not None:
                if process in self._writers:  # the process crashed, and is restarted
                    self._writers[process].close()
                path = journal_of(process, self._journal)
                writer = JournalWriter(path, run=run, clock=system.clock, largest=LARGEST, files=FILES)
                self._writers[process] = writer
            system.actors.journal = _ProcessJournal(process, system.clock, self.sent, writer)

        cluster.started.append(started)
        self._syncs.attach(cluster)

    def record_end(self, cluster: SimulatedCluster) -> None:
        """Record the state of all keys at the end of the run."""
        self.keys = self._syncs.states(cluster)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def journal_of(process: str, file: Path) -> Path:
    return file if process == "manager" else file.with_name(f"{file.name}-{process}")


class _ProcessJournal:
    """Journal of one process, for actors that share one thread. Implements kcm.runtime.system.actor.Journal."""

    def __init__(self, process: str, clock: Clock, sent: list[SentMessage], writer: JournalWriter | None) -> None:
        self._process, self._clock, self._sent, self._writer = process, clock, sent, writer
        self._number = self._handled = 0

    def sent(self, sender: str, to: str, incarnation: int, frame: bytes, cause: int | None) -> bytes:
        cause = self._handled if cause is None else cause
        self._number += 1
        self._sent.append(
            SentMessage(self._clock.monotonic(), self._process, self._number, cause, sender, to, bytes(frame))
        )
        if self._writer is not None:
            return self._writer.sent(sender, to, incarnation, frame, cause)
        numbered = NumberedFrame(frame)
        numbered.number = self._number
        return numbered

    def handling(self, frame: bytes, *, last: bool) -> AbstractContextManager[None]:
        return self._handling(frame, last=last)

    @contextmanager
    def _handling(self, frame: bytes, *, last: bool) -> Iterator[None]:
        self._handled = frame.number if isinstance(frame, NumberedFrame) else 0
        try:
            if self._writer is None:
                yield
            else:
                with self._writer.handling(frame, last=last):
                    yield
        finally:
            self._handled = 0

    def current(self) -> int:
        return self._handled
