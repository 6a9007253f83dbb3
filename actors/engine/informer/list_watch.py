"""Requests of an informer: a page of a list, a streamed list, or a watch; one at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from msgspec import Struct

from kcm.actors.engine.server_warnings import ServerWarnings
from kcm.actors.reconciliation.actor_names import INFORMERS
from kcm.protocols.messages.watches import Listed, Streamed, StreamEnded
from kcm.protocols.resources import Resource, resource_path, split_cluster
from kcm.runtime.client.api import JSON, METADATA, METADATA_LIST, ReadsAsItComes, Request, Response, Stream, Transport
from kcm.runtime.client.watch_stream import HeldLines
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.selection import Selection

PAGE = 500
PROBE = Request(method="GET", path="/version", timeout=10.0)  # allowed for every authenticated client


class InformerLimits(Struct, frozen=True, kw_only=True):
    """Limits of requests, in seconds."""

    silence: float = 90.0  # a watch without a byte for this long is cut
    list_timeout: float = 60.0  # for a page of a list
    watch_timeout: float = 300.0  # the server ends a watch after a random time between this and twice this
    streaming_lists: bool = True  # request streamed lists instead of pages
    unread_every: float = 0.0  # how often events are handled while the table has no subscriber; 0: as they arrive
    may_lag: float = 0.0  # by which events may be late if they follow another one


class ListWatch:
    """Client of one informer. Delivers responses as Listed, Streamed and StreamEnded with the number of their request.

    Messages of an earlier request may still arrive; see is_current.

    began: monotonic time at which the current request was sent.
    events: number of its events, counted by the informer.
    silent: no data was received yet.
    """

    def __init__(
        self,
        resource: Resource,
        *,
        selection: Selection,
        transport: Transport,
        limits: InformerLimits,
        clock: Clock,
        chance: random.Random,
        incarnation: int,
        metadata_only: bool,
        deliver: Callable[[Listed | Streamed | StreamEnded], None],
        warnings: ServerWarnings,
    ) -> None:
        """Create a client for one resource.

        selection: covers at most one namespace.
        transport: of the cluster of the resource.
        incarnation: of the informer; makes request numbers unique.
        metadata_only: request PartialObjectMetadata.
        deliver: puts a message into the informer's mailbox; thread-safe.
        """
        self._accept_list = METADATA_LIST if metadata_only else JSON
        self._accept_watch = METADATA if metadata_only else JSON
        self._transport, self._limits, self._clock, self._random = transport, limits, clock, chance
        self._path = resource_path(split_cluster(resource.id)[1], *(selection.namespaces or ()))
        self._selectors = selection.query
        self._deliver = deliver
        self._resource, self._warnings = resource, warnings
        self._first = incarnation * 1_000_000
        self._number = self._first
        self._stream: Stream | None = None
        self._held: HeldLines | None = None  # lines of the watch
        self.began = 0.0
        self.events = 0
        self.silent = True

    def is_current(self, number: int) -> bool:
        return number == self._number

    def ask_page(self, query: dict[str, str]) -> None:
        """Request a page of the list. query: parameters besides the limit, such as where the page begins."""
        number = self._begin()
        query = {"limit": str(PAGE), **self._selectors, **query}
        request = Request(
            method="GET",
            path=self._path,
            query=query,
            accept=self._accept_list,
            timeout=self._limits.list_timeout,
        )

        self._transport.send(request, client=INFORMERS, on_response=partial(self._bring_page, number))

    def probe(self) -> None:
        """Send a request that any server answers. The resulting Listed shows whether it responds."""
        number = self._begin()
        self._transport.send(PROBE, client=INFORMERS, on_response=partial(self._bring_page, number))

    def stream_list(self, at_least: int | None) -> None:
        """Request a streamed list.

        If the transport streams response bodies, this is an ordinary list: 30,000 pods as a list cost the server half
        the time of the same pods as watch events. Otherwise it is a watch with sendInitialEvents.

        at_least: minimum resource version; None: the list contains all earlier writes.
        """
        bound = {} if at_least is None else {"resourceVersion": str(at_least)}
        if not isinstance(self._transport, ReadsAsItComes):
            self.open({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", **bound})
            return
        if bound:
            bound["resourceVersionMatch"] = "NotOlderThan"
        number = self._begin()
        request = Request(method="GET", path=self._path, query={**self._selectors, **bound}, accept=self._accept_list)
        self._stream = self._transport.read(
            request,
            client=INFORMERS,
            on_bytes=partial(self._bring, number),
            on_end=partial(self._bring_end, number, None),
        )

    def open(self, query: dict[str, str], *, brief: bool = False, holds: bool = False) -> None:
        """Open a watch.

        query: parameters in addition to selectors, bookmarks and timeout, such as the resource version.
        brief: the server ends it well before the silence limit, even without events.
        holds: as after hold().
        """
        number = self._begin()
        seconds = int(self._limits.watch_timeout * (1 + self._random.random()))
        if brief:
            seconds = min(seconds, max(2, int(self._limits.silence / 2)))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            **self._selectors,
            **query,
        }
        bring, every = partial(self._bring, number), self._limits.unread_every
        held = self._held = HeldLines(bring, clock=self._clock, every=every, holds=holds) if every else None
        self._stream = self._transport.watch(
            Request(
                method="GET", path=self._path, query=query, accept=self._accept_watch, may_lag=self._limits.may_lag
            ),
            client=INFORMERS,
            on_lines=bring if held is None else held.take,
            on_end=partial(self._bring_end, number, held),
        )

    def hold(self) -> None:
        """Deliver the lines of the watch every `unread_every` seconds: the table has no subscriber."""
        if self._held is not None:
            self._held.hold()

    def release(self) -> bool:
        """Deliver lines as they arrive. Return True if some were held, which are in the mailbox now."""
        return self._held is not None and self._held.release()

    def drop(self) -> None:
        """Cut the watch, if there is one."""
        if self._stream is not None:
            self._stream.cancel()
            self._stream = None
        if self._held is not None:
            self._held.drop()
            self._held = None

    def ended(self) -> None:
        """Record that the request has ended."""
        self._stream = self._held = None

    def _bring_page(self, number: int, response: Response) -> None:
        error, retry_after = response.error, response.retry_after
        self._log_warnings(response)
        self._deliver(Listed(number, response.status, response.body, error, retry_after))

    def _bring(self, number: int, lines: bytes) -> None:
        self._deliver(Streamed(number, lines))

    def _bring_end(self, number: int, held: HeldLines | None, response: Response) -> None:
        if held is not None:
            held.release()
        error, retry_after = response.error, response.retry_after
        self._log_warnings(response)
        self._deliver(StreamEnded(number, response.status, error, response.body, retry_after, response.begun))

    def _log_warnings(self, response: Response) -> None:
        if response.warnings:
            resource = self._resource
            request = f"list or watch {resource.name}"
            self._warnings.log(
                response.warnings, client=INFORMERS, resource=resource.id, request=request, is_write=False
            )

    def _begin(self) -> int:
        """Begin a request and return its number. Messages of earlier requests are ignored from now on."""
        self.drop()
        self.began, self.events, self.silent = self._clock.monotonic(), 0, True
        self._number = self._first + (self._number - self._first) % 1_000_000 + 1
        return self._number
