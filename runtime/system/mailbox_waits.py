"""Time that messages wait in mailboxes, for the profile of contention (--contention-profiling)."""

from __future__ import annotations

from collections.abc import Callable

from kcm.runtime.system.journal import NumberedFrame


class MailboxWaits:
    """Number of messages that each actor has received, and how long they waited in its mailbox.

    Each actor's entry has one writer, the actor's thread, so no lock is needed.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._counts: dict[str, int] = {}
        self._seconds: dict[str, float] = {}

    def stamped(self, frame: bytes) -> bytes:
        """Return the frame with the current time. Called on the sender's thread, before it is put into the mailbox."""
        stamped = frame if isinstance(frame, NumberedFrame) else NumberedFrame(frame)
        stamped.posted = self._now()
        return stamped

    def received(self, actor: str, frame: bytes) -> None:
        """Record that an actor begins to handle a frame. Called on the actor's thread."""
        if isinstance(frame, NumberedFrame) and frame.posted:
            self._counts[actor] = self._counts.get(actor, 0) + 1
            self._seconds[actor] = self._seconds.get(actor, 0.0) + self._now() - frame.posted

    def totals(self) -> list[tuple[str, int, float]]:
        """Return for each actor: name, number of messages, and seconds that they waited."""
        return [(actor, count, self._seconds.get(actor, 0.0)) for actor, count in list(self._counts.items())]
