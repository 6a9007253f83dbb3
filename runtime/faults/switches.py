"""Transport with faults that are switched on and off while it is used: cut watches, refused writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from kcm.protocols.resources import LEASES
from kcm.runtime.client.api import Breakable, HasServer, Request, Response, Stream, Transport
from kcm.runtime.faults.answers import no_answer, refusal
from kcm.runtime.faults.transport import scope_of
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.scheduling.clock import Clock

OnResponse = Callable[[Response], None]
REFUSED = Fault(kind=FaultKind.COMMAND_ANSWERED, status=503)
CUT = "connection refused (injected)"


class SwitchedTransport:
    """Transport whose watches can be cut, and whose writes can be refused. Without a fault it passes everything on.

    Writes of Leases are never refused: the manager would end without its Lease.
    """

    def __init__(self, inner: Transport, *, clock: Clock) -> None:
        self._inner, self._clock = inner, clock
        self._lock = threading.Lock()
        self._cut: frozenset[str] = frozenset()  # plurals of resources without watches
        self._refuses = False
        self._streams: dict[SwitchedStream, str] = {}  # open ones, with the plural of their resource

    @property
    def trouble(self) -> str | None:
        """Return why the connection is broken, see Breakable."""
        return self._inner.trouble if isinstance(self._inner, Breakable) else None

    @property
    def host(self) -> str:
        """Return host and port of the server, see HasServer."""
        return self._inner.host if isinstance(self._inner, HasServer) else ""

    @property
    def cut(self) -> frozenset[str]:
        return self._cut

    @property
    def refuses_writes(self) -> bool:
        return self._refuses

    @property
    def watched(self) -> list[str]:
        """Return the plurals of the resources that are watched, or whose watches are cut."""
        with self._lock:
            return sorted({*self._streams.values(), *self._cut})

    def refuse_writes(self, *, on: bool) -> None:
        self._refuses = on

    def cut_watches(self, plural: str, *, on: bool) -> None:
        """End the watches of a resource and refuse new ones, or allow them again."""
        with self._lock:
            self._cut = self._cut | {plural} if on else self._cut - {plural}
            ended = [stream for stream, resource in self._streams.items() if on and resource == plural]
        for stream in ended:
            stream.break_off()

    def send(self, request: Request, *, client: str, on_response: OnResponse) -> None:
        if self._refuses and request.method != "GET" and scope_of(request.path)[0] != LEASES.plural:
            self._later(partial(on_response, refusal(REFUSED)))
        else:
            self._inner.send(request, client=client, on_response=on_response)

    def watch(
        self, request: Request, *, client: str, on_lines: Callable[[bytes], None], on_end: OnResponse
    ) -> SwitchedStream:
        plural = scope_of(request.path)[0]
        stream = SwitchedStream(self._forget, on_end)
        with self._lock:
            is_cut = plural in self._cut
            if not is_cut:
                self._streams[stream] = plural
        if is_cut:
            self._later(stream.break_off)
        else:
            stream.inner = self._inner.watch(request, client=client, on_lines=on_lines, on_end=stream.end)
        return stream

    def _forget(self, stream: SwitchedStream) -> None:
        with self._lock:
            self._streams.pop(stream, None)

    def _later(self, what: Callable[[], None]) -> None:
        """Call a function soon, not within the call that causes it."""
        self._clock.call_at(object(), self._clock.monotonic(), what)


class SwitchedStream:
    """Watch that can be broken off. on_end is called once."""

    def __init__(self, forget: Callable[[SwitchedStream], None], on_end: OnResponse) -> None:
        self.inner: Stream | None = None
        self._forget, self._on_end = forget, on_end
        self._lock = threading.Lock()
        self._over = False

    def break_off(self) -> None:
        """End the watch as a broken connection does."""
        if self.inner is not None:
            self.inner.cancel()
        self.end(no_answer(CUT))

    def end(self, response: Response) -> None:
        if self._finish():
            self._on_end(response)

    def cancel(self) -> None:
        self._finish()
        if self.inner is not None:
            self.inner.cancel()

    def _finish(self) -> bool:
        """Report whether the watch was not over yet."""
        with self._lock:
            was_over, self._over = self._over, True
        self._forget(self)
        return not was_over
