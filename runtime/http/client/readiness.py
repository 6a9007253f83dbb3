"""Readiness of libcurl's sockets, as reported by the event loop."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
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

    def close(self) -> None: ...


class LoopReadiness:
    """Readiness by the event loop, which watches each descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Act, after_all: Callable[[], None]) -> None:
        self._loop, self._act, self._after_all = loop, act, after_all
        self._watched: dict[int, int] = {}
        self._is_due = False  # a call of after_all is scheduled

    def watch(self, descriptor: int, wanted: int) -> None:
        had = self._watched.pop(descriptor, 0)
        if wanted:
            self._watched[descriptor] = wanted
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
            self._epoll = select.epoll()
            loop.add_reader(self._epoll.fileno(), self._tell)

        def watch(self, descriptor: int, wanted: int) -> None:
            watched = self._watched
            if not wanted:
                if watched.pop(descriptor, 0):
                    self._epoll.unregister(descriptor)
                return
            events = (select.EPOLLIN if wanted & READ else 0) | (select.EPOLLOUT if wanted & WRITE else 0)
            if descriptor in watched:
                self._epoll.modify(descriptor, events)
            else:
                self._epoll.register(descriptor, events)
            watched[descriptor] = wanted

        def close(self) -> None:
            if not self._epoll.closed:
                if not self._loop.is_closed():
                    self._loop.remove_reader(self._epoll.fileno())
                self._epoll.close()
            self._watched.clear()

        def _tell(self) -> None:
            for descriptor, events in self._epoll.poll(0, AT_ONCE):
                if descriptor in self._watched:  # a callback before this one may have closed it
                    ready = READ if events & ~select.EPOLLOUT else 0  # a read finds a closed or broken connection
                    self._act(descriptor, ready | (WRITE if events & select.EPOLLOUT else 0))
            self._after_all()

    new_readiness: Callable[[asyncio.AbstractEventLoop, Act, Callable[[], None]], SocketReadiness] = EpollReadiness
else:
    new_readiness = LoopReadiness
