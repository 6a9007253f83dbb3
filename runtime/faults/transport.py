"""Transport that injects faults into requests and watches."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from kcm.protocols.objects import make_key
from kcm.protocols.versions import parse_version
from kcm.protocols.watch_lines import INITIAL_EVENTS_END
from kcm.runtime.client.api import Breakable, Request, Response, Stream, Transport
from kcm.runtime.faults.answers import no_answer, refusal
from kcm.runtime.faults.triggers import Strikes
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from kcm.runtime.scheduling.clock import Clock

TIMEOUT = 60.0  # seconds, of a request without a timeout

OnResponse = Callable[[Response], None]


def scope_of(path: str) -> tuple[str, str]:
    """Return (plural, key) of a request's path; ("", "") if it is not a resource's.

    The key of a collection in a namespace is "namespace/".
    """
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if not parts:
        return "", ""
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    return parts[0], make_key(namespace, parts[1] if len(parts) > 1 else "")


class FaultyTransport:
    """Transport with injected faults. A response that does not come from the server is sent on the clock's thread."""

    def __init__(self, inner: Transport, strikes: Strikes, *, clock: Clock) -> None:
        self._inner, self._strikes, self._clock = inner, strikes, clock

    @property
    def trouble(self) -> str | None:
        """Return why the connection is broken, see Breakable."""
        return self._inner.trouble if isinstance(self._inner, Breakable) else None

    def send(self, request: Request, *, client: str, on_response: OnResponse) -> None:
        timeout = TIMEOUT if request.timeout is None else request.timeout
        now = self._clock.monotonic()
        request = replace(request, permit=request.permit.within(now + timeout))  # the timeout starts here
        deadline = request.permit.until
        if self._strike(FaultKind.PARTITION, request) or self._strike(FaultKind.COMMAND_LOST, request):
            self._give_up(deadline, on_response)
        elif self._strike(FaultKind.COMMAND_REFUSED, request):
            self._later(0.0, lambda: on_response(no_answer("connection refused (injected)", sent=False)))
        elif fault := self._strike(FaultKind.COMMAND_ANSWERED, request):
            answer = refusal(fault)
            self._later(0.0, lambda: on_response(answer))
        elif fault := (
            self._strike(FaultKind.REQUEST_HELD, request) or self._strike(FaultKind.COMMAND_DELAYED, request)
        ):
            if now + fault.seconds >= deadline:
                self._give_up(deadline, on_response)
            else:
                self._later(fault.seconds, lambda: self._carry(request, client, deadline, on_response))
        else:
            self._carry(request, client, deadline, on_response)

    def watch(
        self, request: Request, *, client: str, on_lines: Callable[[bytes], None], on_end: OnResponse
    ) -> FaultyStream:
        stream = FaultyStream(self._strikes, scope_of(request.path), self._clock, on_lines, on_end)
        if self._strike(FaultKind.PARTITION, request):
            self._later(0.0, lambda: stream.end(no_answer("connection refused (injected)")))
        elif fault := self._strike(FaultKind.COMMAND_ANSWERED, request):
            answer = refusal(fault)
            self._later(0.0, lambda: stream.end(answer))
        else:
            request = self._rewound(request)
            stream.inner = self._inner.watch(request, client=client, on_lines=stream.deliver, on_end=stream.end)
        return stream

    def _carry(self, request: Request, client: str, deadline: float, on_response: OnResponse) -> None:
        def answered(response: Response) -> None:
            if self._strike(FaultKind.OUTCOME_LOST, request) or self._strike(FaultKind.PARTITION, request):
                self._give_up(deadline, on_response)
                return
            on_response(response)
            if self._strike(FaultKind.OUTCOME_REPEATED, request):
                on_response(response)

        def again(_first: Response) -> None:
            self._inner.send(request, client=client, on_response=answered)

        repeated = self._strike(FaultKind.COMMAND_REPEATED, request)
        self._inner.send(request, client=client, on_response=again if repeated else answered)

    def _rewound(self, request: Request) -> Request:
        version = parse_version(request.query.get("resourceVersion"))
        if not version:
            return request
        fault = self._strike(FaultKind.WATCH_REWOUND, request)
        if fault is None:
            return request
        return replace(request, query={**request.query, "resourceVersion": str(max(1, version - fault.amount))})

    def _strike(self, kind: FaultKind, request: Request) -> Fault | None:
        if not self._strikes.plans(kind):
            return None
        resource, key = scope_of(request.path)
        if name := request.only_name:
            key += name
        return self._strikes.strike(kind, resource=resource, key=key)

    def _give_up(self, deadline: float, on_response: OnResponse) -> None:
        self._clock.call_at(object(), deadline, lambda: on_response(no_answer("timed out (injected)")))

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        self._clock.call_at(object(), self._clock.monotonic() + seconds, what)


class FaultyStream:
    """Running watch.

    After a delayed delivery, all later ones are scheduled by the clock too, so that they stay in order.
    """

    def __init__(
        self,
        strikes: Strikes,
        scope: tuple[str, str],
        clock: Clock,
        on_lines: Callable[[bytes], None],
        on_end: OnResponse,
    ) -> None:
        self.inner: Stream | None = None
        self._strikes, self._clock = strikes, clock
        self._resource, self._key = scope
        self._on_lines, self._on_end = on_lines, on_end
        self._lock = threading.Lock()
        self._late: deque[Callable[[], None]] = deque()
        self._last_due: float | None = None
        self._stalled = self._over = False

    def deliver(self, lines: bytes) -> None:
        if self._over or self._stalled:
            return
        if self._strike(FaultKind.WATCH_DROPPED) is not None:
            if self.inner is not None:
                self.inner.cancel()
            self._finish(Response(status=0, error="unexpected EOF (injected)", begun=True))
            return
        cut_off = self._strike(FaultKind.PARTITION)
        if self._strike(FaultKind.WATCH_STALLED) is not None or (cut_off is not None and cut_off.until is None):
            self._stalled = True
            return
        lines = self._without_bookmarks(lines)
        lagging = self._strike(FaultKind.WATCH_LAGGING)
        due = self._clock.monotonic() + (lagging.seconds if lagging is not None else 0.0)
        if cut_off is not None and cut_off.until is not None:
            due = max(due, self._strikes.moment(cut_off.until))
        self._pass_on(lambda: self._arrive(lines), due, late=lagging is not None or cut_off is not None)

    def end(self, response: Response) -> None:
        """End the watch, as the server or the connection does, after all earlier deliveries."""
        if not self._stalled:
            self._pass_on(lambda: self._finish(response), self._clock.monotonic(), late=False)

    def cancel(self) -> None:
        self._over = True
        if self.inner is not None:
            self.inner.cancel()

    def _pass_on(self, what: Callable[[], None], due: float, *, late: bool) -> None:
        if self._last_due is None and not late:
            what()
            return
        with self._lock:
            self._last_due = due = max(due, self._last_due or 0.0)
            self._late.append(what)
        self._clock.call_at(object(), due, self._release)

    def _release(self) -> None:
        """Deliver the oldest delayed delivery. There is one alarm per delayed delivery."""
        with self._lock:
            what = self._late.popleft()
        what()

    def _arrive(self, lines: bytes) -> None:
        if lines and not self._over:
            self._on_lines(lines)

    def _finish(self, response: Response) -> None:
        if not self._over:
            self._over = True
            self._on_end(response)

    def _without_bookmarks(self, lines: bytes) -> bytes:
        if not self._strikes.plans(FaultKind.BOOKMARKS_WITHHELD):
            return lines
        kept = []
        for line in lines.splitlines(keepends=True):
            is_bookmark = line.startswith(b'{"type":"BOOKMARK"') and INITIAL_EVENTS_END.encode() not in line
            if not is_bookmark or self._strike(FaultKind.BOOKMARKS_WITHHELD) is None:
                kept.append(line)
        return b"".join(kept)

    def _strike(self, kind: FaultKind) -> Fault | None:
        return self._strikes.strike(kind, resource=self._resource, key=self._key)
