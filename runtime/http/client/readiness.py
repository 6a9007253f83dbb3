"""Readiness of libcurl's sockets, as reported by the event loop."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Iterable
from typing import Protocol

READ, WRITE = 1, 2  # libcurl's CURL_CSELECT_IN and _OUT, CURL_POLL_IN and _OUT
AT_ONCE = 256  # descriptors that are reported by one call of poll

Act = Callable[[int, int], None]


class SocketReadiness(Protocol):
    """Watches sockets and calls act(descriptor, READ or WRITE or both), and after_all() after several calls of act.

    Used on the loop's thread.
    """

    def watch(self, descriptor: int, wanted: int) -> None:
        """Watch a descriptor for READ or WRITE or both. 0 ends the watch; required before the descriptor is closed."""

    def rest(self, descriptor: int) -> None:
        """Do not report that a watched descriptor can be read, until resume()."""

    def resume(self, descriptors: Iterable[int]) -> None:
        """Watch descriptors as requested. Those that do not rest are left out."""

    def close(self) -> None: ...


class LoopReadiness:
    """Readiness by the event loop, which watches each descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Act, after_all: Callable[[], None]) -> None:
        self._loop, self._act, self._after_all = loop, act, after_all
        self._watched: dict[int, int] = {}
        self._resting: set[int] = set()
        self._is_due = False  # a call of after_all is scheduled

    def watch(self, descriptor: int, wanted: int) -> None:
        had = self._reported(descriptor)
        self._watched.pop(descriptor, None)
        if wanted:
            self._watched[descriptor] = wanted
        else:
            self._resting.discard(descriptor)
        self._change(descriptor, had)

    def rest(self, descriptor: int) -> None:
        if descriptor in self._watched:
            had = self._reported(descriptor)
            self._resting.add(descriptor)
            self._change(descriptor, had)

    def resume(self, descriptors: Iterable[int]) -> None:
        for descriptor in descriptors:
            if descriptor in self._resting:
                had = self._reported(descriptor)
                self._resting.discard(descriptor)
                self._change(descriptor, had)

    def _reported(self, descriptor: int) -> int:
        return self._watched.get(descriptor, 0) & (WRITE if descriptor in self._resting else READ | WRITE)

    def _change(self, descriptor: int, had: int) -> None:
        wanted = self._reported(descriptor)
        changed = had ^ wanted
        if changed & READ:
            if wanted & READ:
                self._loop.add_reader(descriptor, self._tell, descriptor, READ)
            else:
                self._loop.remove_reader(descriptor)
        if changed & WRITE:
            if wanted & WRITE:
                self._loop.add_writer(descriptor, self._tell, descriptor, WRITE)
            else:
                self._loop.remove_writer(descriptor)

    def close(self) -> None:
        for descriptor in list(self._watched):
            self.watch(descriptor, 0)

    def _tell(self, descriptor: int, events: int) -> None:
        if not self._watched.get(descriptor, 0) & events:
            return
        self._act(descriptor, events)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        self._is_due = False
        self._after_all()


if hasattr(select, "epoll"):  # Linux

    class EpollReadiness:
        """Readiness by an epoll object, which the event loop watches.

        Each request starts and ends a watch of its descriptor, which takes five times as long in the event loop itself.
        """

        def __init__(self, loop: asyncio.AbstractEventLoop, act: Act, after_all: Callable[[], None]) -> None:
            self._loop, self._act, self._after_all = loop, act, after_all
            self._watched: dict[int, int] = {}
            self._resting: set[int] = set()
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._tell)

        def watch(self, descriptor: int, wanted: int) -> None:
            watched = self._watched
            if not wanted:
                self._resting.discard(descriptor)
                if watched.pop(descriptor, 0):
                    self._epoll.unregister(descriptor)
                return
            if descriptor in watched:
                watched[descriptor] = wanted
                self._epoll.modify(descriptor, self._events(descriptor))
            else:
                watched[descriptor] = wanted
                self._epoll.register(descriptor, self._events(descriptor))

        def rest(self, descriptor: int) -> None:
            if descriptor in self._watched:
                self._resting.add(descriptor)
                self._epoll.modify(descriptor, self._events(descriptor))

        def resume(self, descriptors: Iterable[int]) -> None:
            for descriptor in descriptors:
                if descriptor in self._resting:
                    self._resting.discard(descriptor)
                    self._epoll.modify(descriptor, self._events(descriptor))

        def _events(self, descriptor: int) -> int:
            wanted = self._watched[descriptor]
            reads = wanted & READ and descriptor not in self._resting
            return (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if wanted & WRITE else 0)

        def close(self) -> None:
            if not self._epoll.closed:
                if not self._loop.is_closed():
                    self._loop.remove_reader(self._epoll.fileno())
                self._epoll.close()
            self._watched.clear()
            self._resting.clear()

        def _tell(self) -> None:
            for descriptor, events in self._epoll.poll(0, AT_ONCE):
                if descriptor in self._watched:  # a callback before this one may have closed it
                    ready = READ if events & ~select.EPOLLOUT else 0  # a read finds a closed or broken connection
                    self._act(descriptor, ready | (WRITE if events & select.EPOLLOUT else 0))
            self._after_all()

    new_readiness: Callable[[asyncio.AbstractEventLoop, Act, Callable[[], None]], SocketReadiness] = EpollReadiness
else:
    new_readiness = LoopReadiness
