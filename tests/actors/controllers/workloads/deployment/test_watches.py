"""The Deployments that a changed object enqueues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcm.actors.controllers.workloads.deployment.reconciler import WATCHES, emptied_recreate, owner_or_adopters
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Bench
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Object, controller_of, encode_object, key_of, owner_reference
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS
from tests.actors.controllers.workloads.deployment.objects import RECREATE, web_deployment, web_replica_set
from tests.support.objects import running_pod

WEB = web_deployment()


def change(type: EventType, obj: Object, old: Object | None = None) -> Change:
    return Change(
        type=type,
        key=key_of(obj),
        raw=encode_object(obj),
        controller=controller_of(obj),
        previous=encode_object(old) if old is not None else b"",
        previous_controller=controller_of(old) if old is not None else None,
    )


def named(name: str, **selector: Any) -> Object:
    return web_deployment(
        meta={"name": name, "uid": f"uid-of-{name}"},
        selector=selector or {"matchLabels": {"app": name}},
    )


def enqueued(changed: Change, *, deployments: Sequence[Object] = (WEB,)) -> list[str]:
    tables = Bench({DEPLOYMENTS: deployments, REPLICASETS: [], PODS: []}).tables
    return sorted(set(owner_or_adopters(changed, tables)))


GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
OWNED = web_replica_set("web-1", owner=WEB)
ORPHAN = web_replica_set("web-1")
OTHER = named("other")


@pytest.mark.parametrize(
    "type, new, old, keys",
    [
        (EventType.ADDED, OWNED, None, ["default/web"]),
        (EventType.ADDED, web_replica_set("web-1", owner=WEB, **GOING), None, ["default/web"]),
        (EventType.ADDED, ORPHAN, None, ["default/web"]),
        (EventType.ADDED, web_replica_set("web-1", **GOING), None, []),
        (EventType.ADDED, web_replica_set("web-1", labels={}), None, []),
        (EventType.ADDED, web_replica_set("web-1", labels={"app": "none"}), None, []),
        (EventType.MODIFIED, OWNED, OWNED, ["default/web"]),
        (EventType.MODIFIED, ORPHAN, OWNED, ["default/web"]),
        (EventType.MODIFIED, ORPHAN, ORPHAN, []),
        (EventType.MODIFIED, ORPHAN, web_replica_set("web-1", labels={"app": "none"}), ["default/web"]),
        (EventType.MODIFIED, web_replica_set("web-1", owner=OTHER), OWNED, ["default/other", "default/web"]),
        (EventType.DELETED, OWNED, OWNED, ["default/web"]),
        (EventType.DELETED, ORPHAN, ORPHAN, []),
    ],
)
def test_replica_set_enqueues_its_owners_or_possible_adopters(
    type: EventType, new: Object, old: Object | None, keys: Sequence[str]
) -> None:
    assert enqueued(change(type, new, old), deployments=[WEB, OTHER]) == keys


def test_orphan_enqueues_all_deployments_with_matching_selectors() -> None:
    deployments = [
        named("first", matchLabels={"app": "web"}),
        named("second", matchExpressions=[{"key": "app", "operator": "Exists"}]),
        named("everything", matchLabels={}),
        named("nonsense", matchExpressions=[{"key": "app", "operator": "Like", "values": ["w%"]}]),
        {**named("elsewhere", matchLabels={"app": "web"}), "spec": "not even a map"},
    ]
    assert enqueued(change(EventType.ADDED, ORPHAN), deployments=deployments) == ["default/first", "default/second"]


def test_new_deployment_of_the_owners_name_is_not_enqueued() -> None:
    stranger = web_deployment(meta={"uid": "another"})
    assert enqueued(change(EventType.MODIFIED, OWNED, OWNED), deployments=[stranger]) == []


def owner_of_pods(owner: Object) -> Object:
    return owner_reference(owner, api_version="apps/v1", kind="ReplicaSet")


RECREATED = web_deployment(strategy=RECREATE)
FIRST, SECOND = web_replica_set("web-1", owner=RECREATED), web_replica_set("web-2", owner=RECREATED)
GONE = running_pod("gone", owner=owner_of_pods(FIRST))


@pytest.mark.parametrize(
    "type, gone, the_deployment, left, keys",
    [
        (EventType.DELETED, GONE, RECREATED, [], ["default/web"]),
        (EventType.MODIFIED, GONE, RECREATED, [], []),
        (EventType.DELETED, GONE, RECREATED, [running_pod("left", owner=owner_of_pods(FIRST))], []),
        (EventType.DELETED, GONE, RECREATED, [running_pod("left", owner=owner_of_pods(SECOND))], []),
        (EventType.DELETED, GONE, RECREATED, [running_pod("orphan")], ["default/web"]),
        (
            EventType.DELETED,
            GONE,
            RECREATED,
            [running_pod("evicted", owner=owner_of_pods(FIRST), phase="Failed")],
            ["default/web"],
        ),
        (EventType.DELETED, GONE, WEB, [], []),
        (EventType.DELETED, GONE, web_deployment(strategy=RECREATE, meta={"uid": "another"}), [], []),
        (EventType.DELETED, GONE, None, [], []),
        (EventType.DELETED, running_pod("gone"), RECREATED, [], []),
        (EventType.DELETED, running_pod("gone", owner=owner_of_pods(web_replica_set("web-9"))), RECREATED, [], []),
        (EventType.DELETED, running_pod("gone", owner={**owner_of_pods(FIRST), "uid": "another"}), RECREATED, [], []),
        (EventType.DELETED, running_pod("gone", owner={**owner_of_pods(FIRST), "kind": "Job"}), RECREATED, [], []),
        (EventType.DELETED, running_pod("gone", owner=owner_of_pods(web_replica_set("loose"))), RECREATED, [], []),
    ],
)
def test_only_the_last_pod_of_a_recreate_deployment_enqueues_it(
    type: EventType, gone: Object, the_deployment: Object | None, left: Sequence[Object], keys: Sequence[str]
) -> None:
    deployments = [] if the_deployment is None else [the_deployment]
    tables = Bench(
        {DEPLOYMENTS: deployments, REPLICASETS: [FIRST, SECOND, web_replica_set("loose")], PODS: left},
    ).tables
    assert list(emptied_recreate(change(type, gone), tables)) == keys


def test_watches_of_the_spec() -> None:
    assert [watch.resource for watch in WATCHES] == [DEPLOYMENTS, REPLICASETS, PODS]
