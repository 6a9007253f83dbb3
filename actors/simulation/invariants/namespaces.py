"""Invariants of the namespace controller, checked against the state of the server."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.observer import Fail, Handled, Observation, decoded, only
from kcm.protocols.objects import Object, finalizers_of, is_deleting
from kcm.protocols.resources import NAMESPACES, PODS, Resource
from kcm.runtime.client.api import Request

CLIENT = "namespace-controller"
FINALIZER = "kubernetes"


class NamespacesAreEmptiedInOrder:
    """Invariant: the namespace controller empties only terminating namespaces, and deletes their pods first.

    It removes its own finalizer only if the namespace is empty, and removes no other finalizers.
    """

    name = "namespaces are emptied in order"
    observes = (only(Handled, CLIENT),)

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case Handled(_, client, request, response, changes) if client == CLIENT and response.status < 300:
                if request.method == "DELETE":
                    self._deleted(request, fail)
                elif request.path.endswith("/finalize"):
                    for change in changes[:1]:
                        self._finalized(decoded(change.previous), decoded(change.raw), fail)
                elif request.method not in ("GET", "PUT") or not request.path.startswith("/api/v1/namespaces/"):
                    if request.method != "GET":
                        fail(f"unexpected request {request.method} {request.path}")

    def _deleted(self, request: Request, fail: Fail) -> None:
        _, _, after = request.path.partition("/namespaces/")
        name, _, what = after.partition("/")
        namespace = self._cluster.get(NAMESPACES, name)
        if namespace is not None and not is_deleting(namespace):
            fail(f"{request.path} is deleted, but the namespace is not terminating")
        if what.split("/")[0] != "pods" and self._cluster.shown(PODS, name):
            fail(f"{request.path} is deleted while pods exist")

    def _finalized(self, before: Object, after: Object, fail: Fail) -> None:
        name = before["metadata"]["name"]
        was, is_now = (set((version.get("spec") or {}).get("finalizers") or ()) for version in (before, after))
        if was - is_now != {FINALIZER} or is_now - was:
            fail(f"finalizers of namespace {name} changed from {sorted(was)} to {sorted(is_now)}")
        if finalizers_of(before) != finalizers_of(after):
            fail(f"namespace {name} lost metadata.finalizers")
        for resource, objects in content_of(self._cluster, name):
            fail(f"namespace {name} is finalized but contains {len(objects)} {resource}")


def content_of(cluster: SimulatedCluster, namespace: str) -> Iterator[tuple[Resource, list[Object]]]:
    """Yield (resource, its objects in a namespace) for each namespaced resource that has objects there."""
    for served in cluster.server.registry:
        if served.namespaced and served.is_stored and "list" in served.verbs:
            resource = Resource(group=served.group, version=served.version, plural=served.plural, kind=served.kind)
            objects = cluster.list(resource, namespace)
            if objects:
                yield resource, objects


def finalizers_in(cluster: SimulatedCluster, namespace: str) -> list[str]:
    """Return the finalizers of the objects in a namespace, sorted and without duplicates."""
    there = (obj for _, objects in content_of(cluster, namespace) for obj in objects)
    return sorted({finalizer for obj in there for finalizer in finalizers_of(obj)})
