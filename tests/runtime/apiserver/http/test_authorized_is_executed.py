"""A request is executed as what it was authorized for, whatever its method and target."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kcm.protocols.selectors import parse_field_selector
from kcm.runtime.apiserver.access.authentication import Authenticator
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.core.settings import ApiSettings
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.http.handler import ApiHttp
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.routing import ResourceRoute, route
from kcm.runtime.apiserver.registry.users import ALLOWED, Decision, User
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.server.handlers import Handlers
from kcm.runtime.apiserver.storage.selection import parse_selection
from kcm.runtime.apiserver.storage.store import MemoryStore
from kcm.runtime.client.api import Request, Response
from kcm.runtime.process.version import Version
from tests.runtime.apiserver.http.served import SetClock

CUSTOM = ResourceDefinition(group="example.com", plural="things", kind="Thing", dynamic=True, subresources=("status",))
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
SEGMENTS = ("", ".", "..", "api", "apis", "v1", "v2", "apps", "example.com", "namespaces", "default", "x", "a%2Fb")
SEGMENTS += ("pods", "nodes", "secrets", "deployments", "things", "services", "bindings", "componentstatuses")
SEGMENTS += ("status", "finalize", "scale", "log", "exec", "proxy", "binding", "watch", "%2F", "%252F", "nam%65spaces")
ROOTS = ("/api/v1/", "/api/v1/namespaces/default/", "/apis/apps/v1/", "/apis/apps/v1/namespaces/default/")
ROOTS += ("/apis/example.com/v1/namespaces/x/", "/api/v1/watch/", "/apis/apps/v1/watch/", "/apis/", "/api/", "/", "//")
PARAMETERS = (
    "",
    "watch=1",
    "watch=0",
    "watch=false",
    "fieldSelector=metadata.name=x",
    "fieldSelector=metadata.name!=x",
)
PARAMETERS += (r"fieldSelector=type!=a\,metadata.name=x", "fieldSelector=metadata.name=a/b")

targets = st.builds(
    lambda root, segments, end, query: root + "/".join(segments) + end + (f"?{'&'.join(query)}" if query else ""),
    st.sampled_from(ROOTS),
    st.lists(st.sampled_from(SEGMENTS) | st.text(max_size=3).map(quote), max_size=5),
    st.sampled_from(("", "/", "//")),
    st.lists(st.sampled_from(PARAMETERS), max_size=2),
)


class RecordingHandlers(Handlers):
    """Records the requests that are executed."""

    def __init__(self, executed: list[tuple[RequestInfo, ResourceRoute]]) -> None:
        self._executed = executed

    def carry_out(self, cluster: Cluster, info: RequestInfo, call: RoutedRequest) -> Response:
        self._executed.append((info, call.route))
        raise status_errors.method_not_allowed()


class RecordingServer(ApiServer):
    """Records what is authorized and what is executed, and executes nothing."""

    def __init__(self) -> None:
        super().__init__(store=MemoryStore(), clock=SetClock(), settings=ApiSettings(resources=(*BUILT_IN, CUSTOM)))
        self.authorized: list[RequestInfo] = []
        self.executed: list[tuple[RequestInfo, ResourceRoute]] = []
        self._handlers = RecordingHandlers(self.executed)

    def decide(self, user: User, info: RequestInfo) -> Decision:
        self.authorized.append(info)
        return ALLOWED

    def watch(self, request: Request, *, info: RequestInfo | None = None, **callbacks: Any) -> Any:
        assert info is not None
        self.executed.append((info, route(self.registry, info)))
        return Response(status=200)


class StubRequest:
    """Stub with the parts of an HttpRequest that a handler reads."""

    is_awaited, user, observer, began = True, User("jane"), None, 0.0
    repeated, body = (), b"{}"

    def __init__(self, method: str, target: bytes, info: RequestInfo) -> None:
        self.method, self.target, self.info = method, target, info
        self.headers: dict[bytes, bytes] = {}
        self.responses: list[Response] = []

    def respond(self, response: Response, **_: Any) -> None:
        self.responses.append(response)


class Recorder:
    """An ApiHttp over a RecordingServer."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.api, self._runner = RecordingServer(), runner
        self._front = ApiHttp(
            self.api,
            authenticator=Authenticator(self.api.user_of),
            version=Version(kubernetes="1.36.2", kcm="1"),
            clock=SetClock(),
            log=structlog.get_logger(),
        )

    def handle(self, method: str, target: str) -> Response:
        self.api.authorized.clear()
        self.api.executed.clear()
        raw = target.encode()
        request: Any = StubRequest(method, raw, RequestInfo.parse(method, raw))

        async def handle() -> None:
            self._front._handle(request)

        self._runner.run(handle())
        [response] = request.responses
        assert response.status != 500
        return response


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    with asyncio.Runner() as runner:
        yield Recorder(runner)


@settings(max_examples=500, deadline=None)
@given(method=st.sampled_from(METHODS), target=targets)
@example(method="GET", target="/api/v1/namespaces/default/pods/web/status//")
@example(method="GET", target="/api/v1/namespaces/default/namespaces/default")
@example(method="DELETE", target="/api/v1/namespaces/x/?fieldSelector=metadata.name=y")
@example(method="GET", target="/api/v1/namespaces/default/secrets?watch=1&fieldSelector=metadata.name=x")
@example(method="DELETE", target="/api/v1/namespaces/default/secrets?fieldSelector=metadata.name=x")
@example(method="GET", target="/api/v1/namespaces/default/pods/web/proxy/a/b")
def test_executed_request_is_the_authorized_one(recorder: Recorder, method: str, target: str) -> None:
    api = recorder.api
    recorder.handle(method, target)
    assert len(api.authorized) == 1
    if not api.executed:
        return
    [info], [(executed, found)] = api.authorized, api.executed
    assert executed is info
    definition = found.definition
    assert (info.group, info.version, info.resource) == (definition.group, definition.version, definition.plural)
    assert info.subresource == found.subresource
    assert not info.has_verb_prefix
    if definition.namespaced:
        assert info.namespace == found.namespace
    else:
        assert (found.namespace, info.namespace) in (("", ""), ("", found.name))
    if found.name:
        assert info.name == found.name
        assert info.verb in ("get", "create", "update", "patch", "delete")
    else:
        assert info.verb not in ("get", "delete")
        if info.name:  # one object of the collection: nothing else may be selected
            assert parse_selection(definition, info.query).on_key == parse_field_selector(f"metadata.name={info.name}")


def test_targets_reach_every_verb(recorder: Recorder) -> None:
    """Guard the property above against targets that are never served."""
    verbs = set()
    for method in METHODS:
        for path in ("/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/secrets/x"):
            for query in ("", "?watch=1"):
                recorder.handle(method, path + query)
                verbs |= {info.verb for info, _ in recorder.api.executed}
    assert verbs == {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
