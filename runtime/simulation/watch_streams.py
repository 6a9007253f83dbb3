"""Watches on the simulated network, with faults: late or lost events, stale servers, broken connections."""

from __future__ import annotations

from collections.abc import Callable

import orjson
from msgspec.structs import replace

from kcm.protocols.versions import parse_version
from kcm.runtime.apiserver.storage.store import ADDED
from kcm.runtime.apiserver.storage.watches import INITIAL_EVENTS_END, CacheWatcher, event_line
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.answers import refusal
from kcm.runtime.faults.vocabulary import FaultKind
from kcm.runtime.simulation.network import Scope, SimulatedNetwork
from kcm.runtime.simulation.side_threads import SideThread

SELECTORS = ("labelSelector", "fieldSelector")
KEPT = ("watch", "allowWatchBookmarks", "timeoutSeconds", *SELECTORS)  # query parameters kept with LIST_STALE


class SimulatedStream:
    """Open watch of a client. Its lines arrive in order, even if faults delay some of them."""

    def __init__(
        self,
        network: SimulatedNetwork,
        scope: Scope,
        http: SideThread,
        on_lines: Callable[[bytes], None],
        on_end: Callable[[Response], None],
    ) -> None:
        self.scope, self._http = scope, http
        self._network, self._on_lines, self._on_end = network, on_lines, on_end
        self._delay = network.delay()  # drawn once per watch
        self._last_due = 0.0  # arrival of the latest line in flight
        self._lag = 0.0
        self._stalled = False
        self._watch: CacheWatcher | None = None
        self._over = False
        network.opened(self)

    def open(self, request: Request) -> None:
        network = self._network
        if self._over:
            return
        if network.server_is_down or network.partition(self.scope) is not None:
            self.break_off("connection refused")
            return
        fault = network.strike(FaultKind.COMMAND_ANSWERED, self.scope)
        if fault is not None:
            self.end(refusal(fault))
            return
        request = self._made_stale(request)
        begun = network.server.watch(request, deliver=self.deliver, end=self.end)
        if isinstance(begun, Response):
            self.end(begun)
        else:
            self._watch = begun

    def deliver(self, lines: bytes) -> None:
        network = self._network
        if self._over or self._stalled:
            return
        due = network.clock.monotonic() + self._delay + self._lag
        if network.injector is not None:
            if network.strike(FaultKind.WATCH_DROPPED, self.scope) is not None:
                self.break_off("unexpected EOF")
                return
            if network.strike(FaultKind.WATCH_STALLED, self.scope) is not None:
                self._stalled = True
                return
            lagging = network.strike(FaultKind.WATCH_LAGGING, self.scope)
            cut_off = network.partition(self.scope)
            due += lagging.seconds if lagging is not None else 0.0
            if cut_off is not None and cut_off.until is not None:
                due = max(due, cut_off.until)
            if network.injector.plans(FaultKind.BOOKMARKS_WITHHELD):
                lines = self._without_bookmarks(lines)
        self._last_due = due = max(due, self._last_due)
        if lines:
            network.clock.call_once(due, lambda: self._http.do(lambda: self._arrive(lines)))

    def end(self, response: Response) -> None:
        """End the watch with a response of the server, after all lines that were sent have arrived."""
        due = max(self._network.clock.monotonic() + self._delay, self._last_due)
        self._network.clock.call_once(due, lambda: self._http.do(lambda: self._finish(response)))

    def break_off(self, error: str) -> None:
        """Break the connection with an error, which the client receives. Lines in flight are lost."""
        if not self._over:
            broken = Response(status=0, error=error, begun=self._watch is not None)
            self._close()
            self._network.clock.call_after(self._network.delay(), lambda: self._http.do(lambda: self._on_end(broken)))

    def cancel(self) -> None:
        if not self._over:
            self._close()
        self._on_end = lambda _response: None

    def _arrive(self, lines: bytes) -> None:
        if not self._over:
            self._on_lines(lines)

    def _finish(self, response: Response) -> None:
        if not self._over:
            self._close()
            self._on_end(response)

    def _close(self) -> None:
        self._over = True
        self._network.closed(self)
        if self._watch is not None:
            self._watch.cancel()

    def _without_bookmarks(self, lines: bytes) -> bytes:
        kept = []
        for line in lines.splitlines(keepends=True):
            is_bookmark = line.startswith(b'{"type":"BOOKMARK"') and INITIAL_EVENTS_END.encode() not in line
            if not is_bookmark or self._network.strike(FaultKind.BOOKMARKS_WITHHELD, self.scope) is None:
                kept.append(line)
        return b"".join(kept)

    def _made_stale(self, request: Request) -> Request:
        """Return the request, with an older resourceVersion if one of two faults is injected.

        LIST_STALE: the objects of an earlier revision are delivered, and the watch continues from there.
        WATCH_REWOUND: changes are repeated that the client has already received.
        """
        network, query = self._network, request.query
        if query.get("sendInitialEvents") == "true":
            stale = network.strike(FaultKind.LIST_STALE, self.scope)
            revision = network.revision_before(stale.seconds) if stale is not None else None
            if stale is None or revision is None or revision < (parse_version(query.get("resourceVersion")) or 0):
                return request  # a stale server waits until it has reached the requested version
            if not self._deliver_revision(request, revision):
                return request
            self._lag = stale.seconds
            kept = {name: query[name] for name in KEPT if name in query}
            return replace(request, query={**kept, "resourceVersion": str(revision)})
        version = parse_version(query.get("resourceVersion"))
        if version:
            rewound = network.strike(FaultKind.WATCH_REWOUND, self.scope)
            if rewound is not None:
                back = max(1, version - rewound.amount)
                return replace(request, query={**query, "resourceVersion": str(back)})
        return request

    def _deliver_revision(self, request: Request, revision: int) -> bool:
        """Deliver the objects of a revision as initial events. Return False if the server has compacted it."""
        selectors = {name: request.query[name] for name in SELECTORS if name in request.query}
        query = {"resourceVersion": str(revision), "resourceVersionMatch": "Exact", **selectors}
        response = self._network.server.handle(Request(method="GET", path=request.path, query=query))
        if response.status != 200:
            return False
        listed = orjson.loads(response.body)
        lines = [event_line(ADDED, orjson.dumps(item)) for item in listed["items"]]
        meta = {"resourceVersion": str(revision), "annotations": {INITIAL_EVENTS_END: "true"}}
        lines.append(orjson.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}) + b"\n")
        self.deliver(b"".join(lines))
        return True
