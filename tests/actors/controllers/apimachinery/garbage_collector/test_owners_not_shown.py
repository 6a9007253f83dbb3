"""Owners that are in no table, absent or invalid, and objects that change concurrently.

Source of the cases: kubernetes v1.36 pkg/controller/garbagecollector/garbagecollector_test.go, TestConflictingData.
"""

from __future__ import annotations

from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.protocols.objects import Object, make_key, uid_of
from kcm.protocols.resources import NODES, PODS
from kcm.runtime.client.api import Request, Response
from tests.actors.controllers.apimachinery.garbage_collector.test_in_a_cluster import CONFIGMAPS, SOON, Family
from tests.actors.engine.discovery.test_discovered_resources import CRDS, THINGS, crd

MISSING: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "missing", "uid": "00000000-0000-4000-8000-00000000beef"},
}


@pytest.fixture
def family(log: FilteringBoundLogger) -> Family:
    return Family(log)


@pytest.mark.parametrize("order", ["the node first", "the pod first"])
def test_absent_namespaced_owner_deletes_only_dependents_in_its_namespace(family: Family, order: str) -> None:
    """A namespaced object cannot own a cluster-scoped one: the node is kept, whichever is synced first."""
    children = [(NODES, "bad"), (PODS, "good")]
    for resource, name in children if order == "the node first" else reversed(children):
        family.make(resource, name, MISSING)
        family.settle(2.0)
    family.settle(SOON)
    assert family.names(PODS) == []
    assert family.names(NODES) == ["bad"]
    assert family.events() == []


def test_late_owner_keeps_its_dependent_and_misplaced_reference_is_recorded(family: Family) -> None:
    parent = family.make(PODS, "parent")
    family.make(PODS, "good", parent)
    family.make(NODES, "bad", parent)
    family.settle(SOON)
    assert family.names(PODS) == ["good", "parent"]
    assert family.names(NODES) == ["bad"]
    assert family.events() == [
        f'ownerRef [v1/Pod, namespace: , name: parent, uid: {uid_of(parent)}] does not exist in namespace ""'
    ]


@pytest.mark.parametrize(("adopted", "left"), [(False, []), (True, ["child", "other"])])
def test_changed_object_is_deleted_unless_its_owners_have_changed(
    family: Family, monkeypatch: pytest.MonkeyPatch, *, adopted: bool, left: list[str]
) -> None:
    owner = family.make(CONFIGMAPS, "owner")
    other = family.make(CONFIGMAPS, "other") if adopted else None
    family.make(CONFIGMAPS, "child", owner)
    family.settle()
    serve, changed = family.cluster.network.serve, []

    def meddling(request: Request) -> Response:
        if request.method == "DELETE" and request.path.endswith("/child") and not changed:
            changed.append(request)
            changes: dict[str, Any] = {"labels": {"a": "b"}}
            if other is not None:
                changes = {"ownerReferences": [Family.reference(other)]}
            family.cluster.merge(CONFIGMAPS, make_key("default", "child"), {"metadata": changes})
        return serve(request)

    monkeypatch.setattr(family.cluster.network, "serve", meddling)
    family.delete(CONFIGMAPS, "owner")
    family.settle(SOON)
    assert len(changed) == 1
    assert family.names(CONFIGMAPS) == left


# The owner's kind cannot be listed, but single objects can be read.


class Unlisted:
    """Cluster in which a Thing owns a ConfigMap, and the server does not support to list Things."""

    def __init__(self, family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
        self.family, self.looks = family, 0
        serve = family.cluster.network.serve
        watch = family.cluster.network.server.watch

        def serving(request: Request) -> Response:
            if request.path.endswith("/things") and request.method == "GET":
                return Response(status=500, body=b"")
            self.looks += request.method == "GET" and request.path.endswith("/things/owner")
            return serve(request)

        def watching(request: Request, **more: Any) -> Any:
            return Response(status=500) if request.path.endswith("/things") else watch(request, **more)

        family.cluster.create(CRDS, crd())
        monkeypatch.setattr(family.cluster.network, "serve", serving)
        monkeypatch.setattr(family.cluster.network.server, "watch", watching)
        owner = family.make(THINGS, "owner")
        family.make(CONFIGMAPS, "one", owner)
        family.make(CONFIGMAPS, "two", owner)
        family.settle(60.0)


@pytest.fixture
def unlisted(family: Family, monkeypatch: pytest.MonkeyPatch) -> Unlisted:
    return Unlisted(family, monkeypatch)


def test_owner_without_table_keeps_its_dependents_and_is_read_with_backoff(unlisted: Unlisted) -> None:
    family = unlisted.family
    assert family.names(CONFIGMAPS) == ["one", "two"]
    before = unlisted.looks
    assert 1 <= before <= 6, "once for all its dependents, then after 5 s, 10 s, 20 s, …"
    family.settle(600.0)
    assert family.names(CONFIGMAPS) == ["one", "two"]
    assert unlisted.looks - before <= 8


def test_dependents_are_deleted_when_owner_without_table_is_absent(unlisted: Unlisted) -> None:
    unlisted.family.delete(THINGS, "owner")
    assert unlisted.family.cluster.run_until(lambda: unlisted.family.names(CONFIGMAPS) == [], within=300.0)


def test_dependents_are_deleted_when_owner_without_table_waits_in_foreground(unlisted: Unlisted) -> None:
    family = unlisted.family
    family.delete(THINGS, "owner", "Foreground")
    assert family.meta(THINGS, "owner")["finalizers"] == ["foregroundDeletion"]
    assert family.cluster.run_until(lambda: family.names(CONFIGMAPS) == [], within=300.0)
