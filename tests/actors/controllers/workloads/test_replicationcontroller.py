from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.controllers.workloads.replicaset.kind import replica_spec, watches
from kcm.actors.controllers.workloads.replicaset.reconciler import ReplicaSetReconciler
from kcm.actors.controllers.workloads.replicationcontroller import REPLICATION_CONTROLLER
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Bench, Driven, bodies, deleted_keys, drive
from kcm.protocols.messages.commands import Create, Delete
from kcm.protocols.objects import Object, encode_object, owner_reference
from kcm.protocols.resources import PODS, REPLICATION_CONTROLLERS
from tests.support.objects import running_pod

WEB = {"app": "web"}
CONTROLLER = {"apiVersion": "v1", "kind": "Anything", "name": "x", "uid": "x", "controller": True}


def replication_controller(replicas: int = 2, **spec: Any) -> Object:
    return {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "uid-of-web",
            "generation": 1,
            "ownerReferences": [CONTROLLER],
        },
        "spec": {"replicas": replicas, "selector": WEB, "template": {"metadata": {"labels": WEB}, "spec": {}}, **spec},
        "status": {"replicas": 0},
    }


REFERENCE = owner_reference(replication_controller(), api_version="v1", kind="ReplicationController")


def sync(log: FilteringBoundLogger, controller: Object, pods: Sequence[Object] = ()) -> tuple[Driven, Object]:
    bench = Bench({REPLICATION_CONTROLLERS: [controller], PODS: pods})
    reconciler = ReplicaSetReconciler(
        tables=bench.tables,
        clock=bench.clock,
        observe_age_ratio=lambda _ratio: None,
        log=log,
        kind=REPLICATION_CONTROLLER,
    )
    driven = drive(reconciler, "default/web", bench.accept, tables=bench.tables)
    return driven, bench.tables[REPLICATION_CONTROLLERS].get("default/web")["status"]


def test_created_pods_are_owned(log: FilteringBoundLogger) -> None:
    driven, _ = sync(log, replication_controller())
    assert [body["metadata"]["ownerReferences"] for body in bodies(driven, Create)] == [[REFERENCE]] * 2
    (about,) = {(record.api_version, record.kind) for record in driven.records}
    assert about == ("v1", "ReplicationController")


def test_terminating_pods_are_not_counted(log: FilteringBoundLogger) -> None:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
    _, status = sync(
        log,
        replication_controller(1),
        [running_pod("a", labels=WEB, owner=REFERENCE), running_pod("b", labels=WEB, owner=REFERENCE, metadata=going)],
    )
    assert status == {
        "replicas": 1,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "observedGeneration": 1,
    }


def test_related_pods_on_nodes_are_ignored(log: FilteringBoundLogger) -> None:
    pods = [
        running_pod("a", labels=WEB, owner=REFERENCE, node="n1", ready_since=1_700_000_000),
        running_pod("b", labels=WEB, owner=REFERENCE, node="n2", ready_since=1_799_999_999),
        running_pod("c", labels=WEB, owner=REFERENCE, node="n1", ready_since=1_700_000_000),
    ]
    driven, _ = sync(log, replication_controller(2), pods)
    assert deleted_keys(driven) == ["default/b"]
    assert len(driven.of(Delete)) == 1


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ({"app": 1}, "spec.selector is a map of strings"),
        ({}, "spec.selector is empty"),
        (None, "spec.selector is a map"),
    ],
)
def test_malformed_selector_is_rejected(selector: Object | None, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replica_spec(replication_controller(selector=selector), REPLICATION_CONTROLLER)


def test_orphan_enqueues_matching_controllers() -> None:
    tables = Bench({REPLICATION_CONTROLLERS: [replication_controller()], PODS: []}).tables
    for labels, keys in ((WEB, ["default/web"]), ({"app": "other"}, [])):
        change = Change(
            type="ADDED", key="default/p", raw=encode_object(running_pod("p", labels=labels)), controller=None
        )
        woken = [
            key
            for watch in watches(REPLICATION_CONTROLLER)
            if watch.resource == PODS
            for key in watch.to(change, tables)
        ]
        assert woken == keys
