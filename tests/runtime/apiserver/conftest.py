"""An API server in memory, and short methods for requests to it."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.identifiers import Identifiers
from kcm.runtime.apiserver.registry.users import ADMIN, User
from kcm.runtime.apiserver.storage.store import MemoryStore, Store
from kcm.runtime.apiserver.storage.watches import CacheWatcher
from kcm.runtime.client.api import Request, Response
from tests.runtime.apiserver.contracts.requests import Given
from tests.runtime.apiserver.servers import new_server
from tests.support.objects import WEB, pod_spec, pod_template

START = 1_000_000_000.0  # 2001-09-09T01:46:40Z

PREFIXES = {
    "pods": "/api/v1",
    "nodes": "/api/v1",
    "namespaces": "/api/v1",
    "events": "/api/v1",
    "services": "/api/v1",
    "endpoints": "/api/v1",
    "secrets": "/api/v1",
    "configmaps": "/api/v1",
    "serviceaccounts": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "resourcequotas": "/api/v1",
    "limitranges": "/api/v1",
    "replicationcontrollers": "/api/v1",
    "replicasets": "/apis/apps/v1",
    "deployments": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
    "things": "/apis/example.com/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "podcertificaterequests": "/apis/certificates.k8s.io/v1beta1",
}
CLUSTER_SCOPED = {"nodes", "namespaces", "priorityclasses", "customresourcedefinitions"}


class Clock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> float:
        return self.time


class Answer:
    """Response with the decoded body in `obj`."""

    def __init__(self, response: Response) -> None:
        self.status, self.warnings = response.status, response.warnings
        self.obj: dict[str, Any] = orjson.loads(response.body)

    @property
    def message(self) -> str:
        return str(self.obj["message"])

    @property
    def reason(self) -> str:
        return str(self.obj["reason"])

    @property
    def causes(self) -> dict[str, str]:
        """Return the messages of the causes by field."""
        return {cause["field"]: cause["message"] for cause in self.obj["details"]["causes"]}

    @property
    def meta(self) -> dict[str, Any]:
        meta: dict[str, Any] = self.obj["metadata"]
        return meta

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.obj["items"]]


class Listener:
    """Collects the lines and the end of a watch."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ended: Response | None = None
        self.watch: CacheWatcher | Response | None = None

    def deliver(self, lines: bytes) -> None:
        assert lines.endswith(b"\n")
        self.lines += lines.splitlines()

    def end(self, response: Response) -> None:
        assert self.ended is None
        self.ended = response

    @property
    def events(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.lines]

    @property
    def seen(self) -> list[tuple[str, str]]:
        """Return the type and name of each event."""
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in self.events]


class Api:
    """Sends requests by resource and name, to the namespace `default` unless `namespace` is given."""

    def __init__(self, store: Store | None = None, **arguments: Any) -> None:
        self.clock = Clock()
        numbers = itertools.count(1)
        letters = itertools.count()
        identifiers = Identifiers(lambda: f"uid-{next(numbers)}", lambda: f"{next(letters):05d}")
        self.server = new_server(store or MemoryStore(), self.clock, identifiers=identifiers, **arguments)

    def path(self, resource: str, name: str = "", subresource: str = "", namespace: str | None = "default") -> str:
        path = PREFIXES.get(resource, "") + "/"
        if resource not in CLUSTER_SCOPED and namespace:
            path += f"namespaces/{namespace}/"
        return path + "/".join(part for part in (resource, name, subresource) if part)

    def answer(self, given: Given) -> tuple[int, Object]:
        """Send a request of a contract, and return status and body."""
        user = User(given.user, groups=given.groups) if given.user else ADMIN
        found = self.send(given.method, given.path, given.body, type_=given.type, user=user, **given.query)
        return found.status, found.obj

    def exchange(self, given: Given) -> tuple[int, Object, list[str]]:
        """Send a request of a contract, and return status, body and warnings."""
        found = self.send(given.method, given.path, given.body, type_=given.type, **given.query)
        return found.status, found.obj, list(found.warnings)

    def send(
        self,
        method: str,
        path: str,
        body: Any = b"",
        *,
        type_: str = "application/json",
        user: User = ADMIN,
        **query: str,
    ) -> Answer:
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        request = Request(method=method, path=path, body=raw, content_type=type_, query=query)
        return Answer(self.server.handle(request, user=user))

    def create(self, resource: str, obj: Any, namespace: str = "default", **query: str) -> Answer:
        return self.send("POST", self.path(resource, namespace=namespace), obj, **query)

    def get(self, resource: str, name: str, subresource: str = "", namespace: str = "default", **query: str) -> Answer:
        return self.send("GET", self.path(resource, name, subresource, namespace), **query)

    def list(self, resource: str, namespace: str | None = "default", **query: str) -> Answer:
        return self.send("GET", self.path(resource, namespace=namespace), **query)

    def put(self, resource: str, obj: Any, subresource: str = "", **query: str) -> Answer:
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "default")
        return self.send("PUT", self.path(resource, name, subresource, namespace), obj, **query)

    def patch(self, resource: str, name: str, body: Any, form: str = "merge", subresource: str = "") -> Answer:
        types = {
            "merge": "application/merge-patch+json",
            "strategic": "application/strategic-merge-patch+json",
            "json": "application/json-patch+json",
            "apply": "application/apply-patch+yaml",
        }
        query = {"fieldManager": "tests"} if form == "apply" else {}
        return self.send("PATCH", self.path(resource, name, subresource), body, type_=types[form], **query)

    def delete(self, resource: str, name: str, options: Any = b"", namespace: str = "default") -> Answer:
        return self.send("DELETE", self.path(resource, name, namespace=namespace), options)

    def exists(self, resource: str, name: str, namespace: str = "default") -> bool:
        return self.get(resource, name, namespace=namespace).status == 200

    def watch(self, resource: str, namespace: str | None = "default", **query: str) -> Listener:
        listener = Listener()
        request = Request(method="GET", path=self.path(resource, namespace=namespace), query={"watch": "1", **query})
        listener.watch = self.server.watch(request, deliver=listener.deliver, end=listener.end)
        return listener

    def advance(self, seconds: float) -> None:
        self.clock.time += seconds
        self.server.tick(self.clock.time)

    @staticmethod
    def pod(name: str = "web", **spec: Any) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": dict(WEB)}, "spec": {**pod_spec(), **spec}}

    @staticmethod
    def template(**labels: str) -> dict[str, Any]:
        return pod_template(labels=labels or WEB)

    @staticmethod
    def replicaset(name: str = "web", **spec: Any) -> dict[str, Any]:
        """Return a ReplicaSet, which is valid as a Deployment as well."""
        defaults = {"selector": {"matchLabels": dict(WEB)}, "template": Api.template()}
        return {"metadata": {"name": name}, "spec": {**defaults, **spec}}

    @staticmethod
    def owned(obj: dict[str, Any], owner: dict[str, Any], *, block: bool = True) -> dict[str, Any]:
        """Return the object with a controller reference to `owner`, which is an object that the server returned."""
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": block,
        }
        return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [reference]}}


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture(scope="session")
def make_api() -> type[Api]:
    """Return the class, for tests that need another store or other settings."""
    return Api
