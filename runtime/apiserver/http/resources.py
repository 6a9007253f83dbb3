"""Handler of requests for resources: parses bodies, starts watches, and responds when changes are durable."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from kcm.protocols.bounded_cache import bounded_cache
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.http.api_request import ApiRequest
from kcm.runtime.apiserver.http.metrics import RequestMetrics
from kcm.runtime.apiserver.http.responder import Responder, accept_of
from kcm.runtime.apiserver.http.streams import WatchStream
from kcm.runtime.apiserver.http.user_agents import agent_prefix
from kcm.runtime.apiserver.presentation.json_bodies import escaped
from kcm.runtime.apiserver.presentation.negotiation import PLAIN_JSON, Form
from kcm.runtime.apiserver.presentation.presentation import Presentation
from kcm.runtime.apiserver.presentation.request_bodies import is_yaml
from kcm.runtime.apiserver.presentation.yaml_bodies import JsonBody
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import ANONYMOUS
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.server.event_loop.round_robin import RoundRobin
from kcm.runtime.apiserver.server.event_loop.suspended_calls import SuspendedCalls
from kcm.runtime.client.api import JSON, Request, Response
from kcm.runtime.scheduling.clock import WallClock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

AT_ONCE = 2048  # bytes; larger YAML bodies are parsed on a thread, because they would delay all other requests
STORE_STALLED = 10.0  # seconds after which a write that waits for the disk makes the server unhealthy

# Users by component, for ComponentStatuses: a component is healthy while one of its users has a watch. The process of
# the hollow nodes contains a scheduler.
_COMPONENTS = {
    "scheduler": ("system:kube-scheduler", "system:hollow-nodes"),
    "controller-manager": ("system:kube-controller-manager",),
}
_WATCHERS = {user for users in _COMPONENTS.values() for user in users}
# Deprecation warnings of core resources. Upstream declares them with APILifecycle methods.
_DEPRECATED = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}


class ResourceRequests:
    """Handler of authorized requests for resources."""

    def __init__(
        self,
        api: ApiServer,
        presentation: Presentation,
        responder: Responder,
        metrics: RequestMetrics,
        *,
        clock: WallClock,
        log: FilteringBoundLogger,
    ) -> None:
        self._api, self._responder, self._metrics = api, responder, metrics
        self._responses, self._bodies = presentation.responses, presentation.request_bodies
        self._field_warnings = presentation.field_warnings
        self._clock, self._log = clock, log
        self._yaml = ThreadPoolExecutor(max_workers=1, thread_name_prefix="yaml")
        self._suspended_calls = SuspendedCalls(api.webhook_calls.conversion_context)
        self._round_robin: RoundRobin | None = None  # scheduler of list conversions, created on the event loop
        self._watching: Counter[str] = Counter()  # open watches, by user
        self._streams: set[WatchStream] = set()
        # Requests that wait until changes are durable, with the time when they began to wait, in Unix seconds.
        self._pending: dict[ApiRequest, float] = {}
        self._failure: StatusError | None = None
        api.suspend_long_computations()
        api.webhook_calls.set_async_caller(self._suspended_calls.answer)
        api.set_component_source(self._components)

    async def close(self) -> None:
        """Cancel suspended requests, which wait for webhooks, timers or long computations."""
        await self._suspended_calls.close()

    def end_watches(self) -> None:
        """End all watches gracefully."""
        for stream in self._streams:
            stream.end()

    def fail(self, failure: StatusError) -> None:
        """Respond to all pending and later requests with an error, and end all watches.

        Called when the store has failed, so that changes can no longer be made durable.
        """
        self._failure = failure
        self.end_watches()
        pending, self._pending = self._pending, {}
        for request in pending:
            request.respond(failure.response())

    def discard_pending(self, because: StatusError, *, handle_again: Callable[[ApiRequest], None]) -> None:
        """Undo all changes that are not durable yet, because the store is full.

        Pending writes fail with the error `because`. Pending reads are executed again, because they may have read these
        changes.

        handle_again: executes a request from the beginning
        """
        self._api.discard_pending(because)
        pending, self._pending = self._pending, {}
        for request in pending:
            if request.method == "GET":
                handle_again(request)
            else:
                request.respond(because.response())

    def store_problem(self) -> str:
        """Return why changes do not become durable; "" if the store works. Health check of the store."""
        if self._failure is not None:
            return self._failure.message
        waited = self._clock.now() - next(iter(self._pending.values()), math.inf)
        return f"a write has not been durable for {waited:.0f} s" if waited > STORE_STALLED else ""

    def handle(self, request: ApiRequest, info: RequestInfo) -> None:
        """Execute a request and respond to it, at once or later. Raises StatusError."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        form = self._responses.negotiated(accept_of(request), info)
        if request.method != "GET":
            self._parse_body(request, info)
            return
        api_request = Request(method="GET", path=info.path, query=info.query)
        if info.verb == "watch":
            self._watch(request, api_request, form)
            return
        outcome = self._api.begin(api_request, info=info, user=request.user or ANONYMOUS)
        if isinstance(outcome, Response):
            self._respond_when_durable(request, outcome)
        else:
            then, failed = partial(self._respond_when_durable, request), partial(self._responder.refuse, request)
            self._suspended_calls.finish(outcome, then, failed)

    # --- writes

    def _parse_body(self, request: ApiRequest, info: RequestInfo) -> None:
        method, body = request.method, request.body
        media_type = _media_type(request.headers.get(b"content-type", b""))
        if len(body) > AT_ONCE and is_yaml(method, media_type, body):
            loop = asyncio.get_running_loop()
            reading = loop.run_in_executor(self._yaml, self._bodies.read, method, media_type, body)
            reading.add_done_callback(partial(self._on_yaml_parsed, request, info, media_type))
            return
        try:
            read = self._bodies.read(method, media_type, body)
        except StatusError as error:
            raise self._bodies.refusal(method, info, error) from None
        self._write(request, info, media_type, read)

    def _on_yaml_parsed(
        self, request: ApiRequest, info: RequestInfo, media_type: str, read: asyncio.Future[JsonBody]
    ) -> None:
        try:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            self._write(request, info, media_type, read.result())
        except StatusError as error:
            self._responder.refuse(request, self._bodies.refusal(request.method, info, error))
        except Exception as error:
            self._responder.refuse(request, error)

    def _write(self, request: ApiRequest, info: RequestInfo, media_type: str, read: JsonBody) -> None:
        method, body = request.method, read.json
        if request.observer is not None:
            request.observer.requested(body)
        agent = agent_prefix(request.headers.get(b"user-agent", b"").decode(errors="replace"))
        type_ = media_type or JSON
        api_request = Request(
            method=method, path=info.path, query=info.query, body=body, content_type=type_, agent=agent
        )
        begin = partial(self._api.begin, api_request, info=info, user=request.user or ANONYMOUS)
        outcome, warnings = self._field_warnings.carry_out(api_request, info, read, begin)
        if isinstance(outcome, Response):
            self._respond_when_durable(request, outcome, warnings)
        else:
            then = partial(self._respond_when_durable, request, warnings=warnings)
            self._suspended_calls.finish(outcome, then, partial(self._responder.refuse, request))

    # --- responses

    def _respond_when_durable(self, request: ApiRequest, response: Response, warnings: Sequence[str] = ()) -> None:
        """Send a response when all changes so far are durable: those of this request, and those that it may have read.

        Raises the StatusError of `fail` if the store has failed.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        self._pending[request] = self._clock.now()
        self._api.when_durable(partial(self._respond, request, response, warnings))

    def _respond(self, request: ApiRequest, response: Response, warnings: Sequence[str]) -> None:
        if self._pending.pop(request, None) is None:  # an error was sent when the store failed
            return
        info = request.info
        deprecation = _deprecation_of(info)
        all_warnings = response.warnings
        if deprecation or warnings:
            all_warnings = (*((deprecation,) if deprecation else ()), *warnings, *all_warnings)
        if info.verb == "list":
            self._convert_list(request, response, all_warnings)
            return
        try:
            shown = self._responses.response(accept_of(request), info, response)
        except Exception as error:
            self._responder.refuse(request, error)
        else:
            self._responder.count(request, shown.status)
            request.respond(shown, warnings=all_warnings, whole=response)

    def _convert_list(self, request: ApiRequest, response: Response, warnings: Sequence[str]) -> None:
        if self._round_robin is None:
            loop = asyncio.get_running_loop()
            self._round_robin = RoundRobin(now=loop.time, soon=loop.call_soon)
        self._round_robin.run(self._list_steps(request, response, warnings))

    def _list_steps(self, request: ApiRequest, response: Response, warnings: Sequence[str]) -> Iterator[None]:
        """Convert a list to the requested form in steps, and respond. Stops if the client disconnects.

        A long list is sent in parts: its body would be in memory several times, and the limit of buffered bytes would
        close the connection.
        """
        parts = self._responses.list_parts(accept_of(request), request.info, response)
        if parts is not None:
            self._responder.count(request, response.status)
            stream = WatchStream(request, too_slow=request.abort, on_end=lambda: None, shown=escaped)
            stream.begin(parts)
            stream.end()
            request.stream(JSON, stream, warnings=warnings)
            return
        steps = self._responses.in_steps(accept_of(request), request.info, response)
        while request.is_awaited:
            try:
                next(steps)
            except StopIteration as end:
                self._responder.count(request, end.value.status)
                request.respond(end.value, warnings=warnings, whole=response)
                return
            except Exception as error:
                self._responder.refuse(request, error)
                return
            yield

    # --- watches

    def _watch(self, request: ApiRequest, api_request: Request, form: Form) -> None:
        info, user = request.info, (request.user or ANONYMOUS).name
        user = user if user in _WATCHERS else ""
        is_watching = False

        def on_end() -> None:
            self._streams.discard(stream)
            if is_watching:
                watch.cancel()
                self._metrics.watching(info, -1)
                self._watching[user] -= 1

        shown = escaped if form == PLAIN_JSON else self._responses.representation(info, form).lines
        stream = WatchStream(request, too_slow=partial(self._cut_off, request), on_end=on_end, shown=shown)
        found = self._api.watch(
            api_request, info=info, deliver=stream.deliver, end=stream.end, deliver_first=stream.begin
        )
        if isinstance(found, Response):
            self._responder.count(request, found.status)
            request.respond(self._responses.error(accept_of(request), found), whole=found)
            return
        watch, is_watching = found, True
        self._streams.add(stream)
        self._metrics.watching(info, 1)
        self._watching[user] += 1
        type_ = form.media_type if form.media_type == JSON else f"{form.media_type};stream=watch"
        deprecations = (_deprecation_of(info), watch.definition.deprecation)
        request.stream(type_, stream, warnings=[deprecation for deprecation in deprecations if deprecation])

    def _cut_off(self, request: ApiRequest) -> None:
        path = request.target.decode(errors="replace")
        self._log.warning("watch cut off, its client is too slow", path=path, peer=request.connection.peer)
        request.abort()

    def _components(self) -> Iterator[tuple[str, str]]:
        """Yield (component, problem) for ComponentStatuses; the problem is "" if the component is healthy.

        A component is healthy while one of its users has an open watch, or while its lease has not expired.
        """
        for component, users in _COMPONENTS.items():
            is_watching = any(self._watching[user] for user in users)
            yield component, "" if is_watching else self._api.lease_problem(f"kube-{component}")
        yield "etcd-0", self.store_problem()


def _deprecation_of(info: RequestInfo) -> str:
    """Return the deprecation warning of the requested core resource; "" if it is not deprecated."""
    return _DEPRECATED.get(info.resource, "") if not info.group else ""


@bounded_cache(256)
def _media_type(content_type: bytes) -> str:
    """Return the media type of a Content-Type header, in lower case and without parameters."""
    return content_type.decode(errors="replace").partition(";")[0].strip().lower()
