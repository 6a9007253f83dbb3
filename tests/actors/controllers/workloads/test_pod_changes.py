"""Changes of pods that wake a ReplicaSet, a StatefulSet or a DaemonSet: those that their syncs count."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.daemonset.watches import WATCHES
from kcm.actors.controllers.workloads.replicaset.kind import REPLICASET, watches
from kcm.actors.controllers.workloads.statefulset.spec import SPEC
from kcm.actors.reconciliation import Watch
from kcm.protocols.objects import encode_object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import PODS
from kcm.runtime.tables.entry import Entry
from kcm.runtime.tables.interests import Transition, meets
from kcm.runtime.tables.table import Table

OWNERS = {"ReplicaSet": watches(REPLICASET), "StatefulSet": SPEC.queues[0].watches, "DaemonSet": WATCHES}
READY_AT = "2026-01-01T00:00:10Z"


def condition(status: str, at: str = READY_AT) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": status, "lastTransitionTime": at}]


def pod(kind: str, *, meta: Any = None, spec: Any = None, **status: Any) -> Entry:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "owner", "controller": True}
    metadata = {"name": "p", "namespace": "default", "uid": "p", "resourceVersion": "1", "ownerReferences": [owner]}
    obj = {"metadata": metadata | (meta or {}), "spec": spec or {}, "status": {"phase": "Pending"} | status}
    return Table(PODS, derive=pod_facts).make_entry(obj, encode_object(obj))


def watch_of(kind: str) -> Watch[Any]:
    return next(w for w in OWNERS[kind] if w.resource == PODS and w.interest.owner_kinds == (kind,))


def wakes(kind: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    return meets(Transition("MODIFIED", pod(kind, **after), pod(kind, **before)), watch_of(kind).interest)


@pytest.mark.parametrize("kind", OWNERS)
@pytest.mark.parametrize(
    "before, after",
    [
        ({}, {"phase": "Running"}),
        ({}, {"phase": "Failed"}),
        ({}, {"meta": {"labels": {"a": "b"}}}),
        ({}, {"meta": {"deletionTimestamp": READY_AT}}),
        ({"conditions": condition("False")}, {"conditions": condition("True")}),
        ({"conditions": condition("True")}, {"conditions": condition("False")}),
        ({"conditions": condition("True")}, {"conditions": condition("True", "2026-01-01T00:00:20Z")}),
    ],
)
def test_change_that_owners_count_wakes_them(kind: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    assert wakes(kind, before, after)


@pytest.mark.parametrize("kind", OWNERS)
@pytest.mark.parametrize(
    "after",
    [
        {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
        {"conditions": condition("False")},
        {"containerStatuses": [{"name": "c", "restartCount": 3}]},
        {"meta": {"annotations": {"a": "b"}}},
    ],
)
def test_other_change_of_a_pod_does_not_wake_its_owner(kind: str, after: dict[str, Any]) -> None:
    assert not wakes(kind, {}, after)


@pytest.mark.parametrize("kind", OWNERS)
@pytest.mark.parametrize("type", ["ADDED", "DELETED"])
def test_pod_that_appears_or_disappears_wakes_its_owner(kind: str, type: str) -> None:
    entry = pod(kind)
    previous = None if type == "ADDED" else entry
    assert meets(Transition(type, entry, previous), watch_of(kind).interest)


@pytest.mark.parametrize("kind", OWNERS)
def test_node_of_a_pod_matters_only_to_a_daemon_set(kind: str) -> None:
    assert wakes(kind, {}, {"spec": {"nodeName": "n"}}) == (kind == "DaemonSet")
