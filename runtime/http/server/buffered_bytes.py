"""Limit on the bytes that all connections together buffer for their clients.

A connection buffers data that its client has not read yet (the rest of a response, events of a watch) and data that the
client has not sent completely yet (a head, a body). Limits per connection do not limit the process, because there may
be thousands of connections. So each connection reports its buffered bytes, and when the total is too large, the
connections that have buffered for the longest time are closed: a client that reads needs its buffer only briefly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MOST_BUFFERED = 256 * 1024 * 1024  # bytes
GRACE = 5.0  # seconds for which a connection is spared, as long as the total is at most twice the limit
LOG_EVERY = 10.0  # seconds between two warnings


class Holder(Protocol):
    """Connection that buffers bytes."""

    @property
    def is_known(self) -> bool:
        """Report whether the user of its request is known."""

    @property
    def peer(self) -> str: ...

    def abort(self) -> None: ...


class _Holding:
    """Buffered bytes of one connection, and since when it has buffered any, in seconds of the clock."""

    __slots__ = ("since", "size")

    def __init__(self, since: float) -> None:
        self.size, self.since = 0, since


class BufferedBytes:
    """Total of the bytes that all connections buffer. Used on one thread."""

    def __init__(
        self,
        *,
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
        log: FilteringBoundLogger,
        most: int = MOST_BUFFERED,
    ) -> None:
        """Create an empty total.

        now: a monotonic clock in seconds.
        later: calls a function after some seconds.
        most: bytes.
        """
        self._now, self._later, self._log, self._most = now, later, log, most
        self._held: dict[Holder, _Holding] = {}  # in the order in which they began to buffer
        self._is_due = False  # _look_again will be called
        self._cut = 0  # connections since the last warning
        self._warned_at = -LOG_EVERY
        self.total = 0

    def hold(self, holder: Holder, size: int) -> None:
        """Record how many bytes a connection buffers now. May close other connections, but not this one."""
        holding = self._held.get(holder)
        if not size:
            if holding is not None:
                self.total -= self._held.pop(holder).size
            return
        if holding is None:
            holding = self._held[holder] = _Holding(self._now())
        self.total += size - holding.size
        holding.size = size
        if self.total > self._most:
            self._make_room(holder)

    def _look_again(self) -> None:
        self._is_due = False
        if self.total > self._most:
            self._make_room(None)

    def _make_room(self, newest: Holder | None) -> None:
        for holder in [*self._in_turn(newest)]:
            if self.total <= self._most:
                break
            self._cut += 1
            self._warn(holder)
            self.hold(holder, 0)
            holder.abort()
        if self.total > self._most and len(self._held) > 1 and not self._is_due:
            self._is_due = True
            self._later(GRACE, self._look_again)

    def _in_turn(self, newest: Holder | None) -> Iterator[Holder]:
        """Yield the connections that may be closed: those of unknown users first, and the longest buffering first.

        Connections with small buffers are spared, because closing them frees little. A single connection may buffer as
        much as it needs.
        """
        if len(self._held) == 1:
            return
        spared_after = self._now() - GRACE if self.total <= 2 * self._most else self._now()
        enough = self.total / (2 * len(self._held))
        large = [
            holder
            for holder, holding in self._held.items()
            if holding.size >= enough and holding.since <= spared_after and holder is not newest
        ]
        yield from sorted(large, key=lambda holder: holder.is_known)

    def _warn(self, holder: Holder) -> None:
        if self._now() - self._warned_at >= LOG_EVERY:
            self._log.warning(
                "connection cut off, too many bytes are buffered for clients that do not read or send on",
                peer=holder.peer,
                bytes=self._held[holder].size,
                buffered=self.total,
                most=self._most,
                cut=self._cut,
            )
            self._warned_at, self._cut = self._now(), 0
