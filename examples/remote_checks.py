"""Common parts of trials of operators with a service outside the cluster: user actions, an invariant, a server."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kubernetes import client
from remote_service import RemoteMemory, http_server

from kcm import Object, Resource
from kcm.objects import decode_object, is_deleting
from kcm.testing import Action, Committed, Fail, Observation, SimulatedCluster

# User actions. A user of a reduced scenario may change an object that was never created.


def create(at: float, resource: Resource[Any], name: str, spec: Object) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        there = cluster.get(resource, f"default/{name}")
        if there is None:
            cluster.create(resource, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        return there is None or not is_deleting(there)  # retried until its predecessor is deleted

    return Action(at, f"{resource.kind} {name} is created: {spec}", do)


def change(at: float, resource: Resource[Any], name: str, changes: Object | None, *, subresource: str = "") -> Action:
    """Merge changes into an object, or delete it if they are None; do nothing if it does not exist."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(resource, f"default/{name}") is not None:
            if changes is None:
                cluster.delete(resource, f"default/{name}")
            else:
                cluster.merge(resource, f"default/{name}", changes, subresource=subresource)
        return True

    return Action(at, f"{resource.kind} {name} is {'deleted' if changes is None else f'changed: {changes}'}", do)


def lose_status(at: float, resource: Resource[Any], name: str) -> Action:
    """Remove the status, as a restore of objects from a backup of the cluster does."""
    return change(at, resource, name, {"status": None}, subresource="status")


class OneForEach:
    """An object has its finalizer before its thing in the service, one thing, and is deleted after its thing.

    thing: what it is, for reports: "copy".
    """

    def __init__(self, cluster: SimulatedCluster, resource: Resource[Any], finalizer: str, thing: str) -> None:
        self.name = f"one {thing}, for as long as there is a {resource.kind}"
        self._cluster, self._resource, self._finalizer, self._thing = cluster, resource, finalizer, thing
        self._known: set[str] = set()

    def observe(self, observation: Observation, fail: Fail) -> None:
        stored, kind, thing = self._cluster.outside.stored(), self._resource.kind, self._thing
        if new := stored.keys() - self._known:
            owners = {obj["metadata"]["uid"]: obj for obj in self._cluster.list(self._resource)}
            for number in new:
                self._known.add(number)
                if self._finalizer not in owners.get(number, {}).get("metadata", {}).get("finalizers", []):
                    what = f"{thing} {number} of {stored[number].title}"
                    fail(f"{what} is started, but no {kind} with this uid has a finalizer")
        if isinstance(observation, Committed):
            for committed in observation.changes:
                if committed.storage == self._resource.name and committed.type == "DELETED":
                    meta = decode_object(committed.raw)["metadata"]
                    if meta["uid"] in stored:
                        fail(f"{meta['name']} is deleted before its {thing} {meta['uid']}")


@contextmanager
def serving(service: RemoteMemory[Any]) -> Iterator[str]:
    """Serve the service over HTTP, and return its URL."""
    server = http_server(service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def define(api: client.ApiClient, definition: Object) -> None:
    """Create the CustomResourceDefinition, if it does not exist, and wait until the resource is served."""
    crds: Any = client.ApiextensionsV1Api(api)
    name = definition["metadata"]["name"]
    if not any(crd.metadata.name == name for crd in crds.list_custom_resource_definition().items):
        crds.create_custom_resource_definition(definition)
    group, version = definition["spec"]["group"], definition["spec"]["versions"][0]["name"]
    objects: Any = client.CustomObjectsApi(api)

    def is_served() -> bool:
        found = objects.get_api_resources(group, version).resources
        return any(each.name == definition["spec"]["names"]["plural"] for each in found)

    until(is_served)


def until(holds: Callable[[], Any], within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
