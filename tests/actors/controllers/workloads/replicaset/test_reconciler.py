"""Decisions of the ReplicaSet reconciler, driven directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from structlog.testing import LogCapture

from kcm.actors.controllers.workloads.replicaset.kind import REPLICASET, replica_spec
from kcm.actors.simulation.driver import NOW, bodies, created_names, deleted_keys
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create, Delete, Get, Patch, Update
from kcm.protocols.messages.outcomes import Done, ServerFailure
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PODS, REPLICASETS
from tests.actors.controllers.workloads.replica_sets import CONTROLLER, DELETING, KEY, WEB, owned, web_replica_set
from tests.support.objects import running_pod

# Number of pods.

# replicas, pods, created, deleted
REPLICAS = {
    "none of two": (2, [], 2, 0),
    "as many as wished for": (2, [owned("a"), owned("b")], 0, 0),
    "one too few": (2, [owned("a")], 1, 0),
    "one too many": (1, [owned("a"), owned("b")], 0, 1),
    "none wished for": (0, [owned("a"), owned("b")], 0, 2),
    "replicas not said is one": (None, [], 1, 0),
    "failed and succeeded pods do not count": (2, [owned("a", phase="Failed"), owned("b", phase="Succeeded")], 2, 0),
    "pods that are being deleted do not count": (
        1,
        [owned("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
        1,
        0,
    ),
    "pods of another controller do not count, whatever their labels": (
        2,
        [owned("a", web_replica_set(name="api"))],
        2,
        0,
    ),
    "pods that wait for a node count": (1, [owned("a", phase="Pending", node="", ready=False)], 0, 0),
}


@pytest.mark.parametrize(("replicas", "pods", "created", "deleted"), REPLICAS.values(), ids=REPLICAS)
def test_missing_pods_are_created_and_surplus_ones_deleted(
    scene: Callable[..., Any], replicas: int | None, pods: Sequence[Object], created: int, deleted: int
) -> None:
    driven = scene(web_replica_set(replicas), pods=pods).sync()
    assert (len(driven.of(Create)), len(driven.of(Delete))) == (created, deleted)
    assert driven.result is None


def test_deleted_replica_set_is_ignored(scene: Callable[..., Any]) -> None:
    assert scene(pods=[owned("a")]).sync(key="default/other").batches == []


@pytest.mark.parametrize(("replicas", "have", "bursts"), [(12, 0, [5, 5, 2]), (2, 14, [5, 5, 2])])
def test_sync_creates_or_deletes_at_most_a_burst(
    scene: Callable[..., Any], replicas: int, have: int, bursts: Sequence[int]
) -> None:
    env = scene(web_replica_set(replicas), pods=[owned(f"p{i}") for i in range(have)], burst=5)
    for burst in bursts:
        assert len(env.sync().of(Create, Delete)) == burst
    assert env.sync().of(Create, Delete) == []


def test_a_burst_is_500(scene: Callable[..., Any]) -> None:
    assert len(scene(web_replica_set(501)).sync().of(Create)) == 500


def test_each_change_to_the_cluster_is_logged_once(scene: Callable[..., Any], logs: LogCapture) -> None:
    env = scene(web_replica_set(2))
    for _ in range(3):
        env.sync()
    env.bench.show(REPLICASETS, web_replica_set(0))
    for _ in range(3):
        env.sync()
    logged = [(entry["event"], entry["key"], entry["count"]) for entry in logs.entries]
    assert logged == [("pods created", KEY, 2), ("pods deleted", KEY, 2)]


def test_created_and_deleted_pods_have_events(scene: Callable[..., Any]) -> None:
    driven = scene().sync()
    assert driven.events == [("Normal", "SuccessfulCreate", f"Created pod: {name}") for name in created_names(driven)]
    (about,) = {
        (record.api_version, record.kind, record.namespace, record.name, record.uid) for record in driven.records
    }
    assert about == ("apps/v1", "ReplicaSet", "default", "web", "uid-of-web")
    driven = scene(web_replica_set(0), pods=[owned("a")]).sync()
    assert driven.events == [("Normal", "SuccessfulDelete", "Deleted pod: a")]


# Ownership of pods.


def test_matching_orphans_are_adopted_and_counted(scene: Callable[..., Any]) -> None:
    env = scene(pods=[running_pod("a", labels=WEB), running_pod("b", labels={"app": "other"})])
    driven = env.sync()
    assert [command.key for command in driven.of(Patch)] == ["default/a"]
    assert len(driven.of(Create)) == 1
    assert len(env.pods()) == 2


def test_unmatched_pods_are_released_and_replaced(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(1), pods=[owned("a", labels={"app": "debug"})])
    driven = env.sync()
    assert bodies(driven, Patch)[0]["metadata"]["ownerReferences"] == [{"$patch": "delete", "uid": "uid-of-web"}]
    assert len(driven.of(Create)) == 1


def test_terminal_pods_are_neither_adopted_nor_released(scene: Callable[..., Any]) -> None:
    pods = [running_pod("a", labels=WEB, phase="Failed"), owned("b", labels={"app": "debug"}, phase="Succeeded")]
    assert scene(web_replica_set(0), pods=pods).sync().of(Patch, Get) == []


def test_failed_adoption_ends_the_sync_first(scene: Callable[..., Any]) -> None:
    env = scene(pods=[running_pod("a", labels=WEB)])
    driven = env.sync(
        lambda command: ServerFailure("no") if isinstance(command, Patch) else env.accept(command), raises=CommandError
    )
    assert [type(command) for command in driven.commands] == [Get, Patch]


def test_terminating_replica_set_only_counts_its_pods(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(5, meta=DELETING), pods=[owned("a"), running_pod("b", labels=WEB)])
    driven = env.sync()
    assert [type(command) for command in driven.commands] == [Update]
    assert env.status()["replicas"] == 1


def test_replica_set_that_is_terminating_on_the_server_adopts_nothing(scene: Callable[..., Any]) -> None:
    env = scene(pods=[running_pod("a", labels=WEB)])
    live = Done(encode_object(web_replica_set(meta={**DELETING, "resourceVersion": "900"})))
    driven = env.sync(lambda command: live if isinstance(command, Get) else env.accept(command), raises=CommandError)
    assert [type(command) for command in driven.commands] == [Get]


@pytest.mark.parametrize(
    ("replicas", "created"), [(None, 0), (0, 0), (3, 3)], ids=["it is gone", "scaled down", "scaled up"]
)
def test_deleted_adopted_pod_is_replaced_by_the_current_replica_set(
    scene: Callable[..., Any], replicas: int | None, created: int
) -> None:
    """Seed 12003214: the pod was replaced for a ReplicaSet that had been removed from the table."""
    env = scene(web_replica_set(1), pods=[running_pod("a", labels=WEB)])

    def late(command: Any) -> Any:
        answer = env.accept(command)
        if isinstance(command, Patch):
            env.bench.hide(PODS, "default/a")
            if replicas is None:
                env.bench.hide(REPLICASETS, KEY)
            else:
                env.bench.show(REPLICASETS, web_replica_set(replicas))
        return answer

    assert len(env.sync(late).of(Create)) == created


# Order of deletions.


def test_pods_are_deleted_in_the_ranked_order(scene: Callable[..., Any]) -> None:
    pods = [
        owned("ready", ready_since=NOW - 3600),
        owned("unready", ready=False),
        owned("pending", phase="Pending", ready=False),
        owned("unassigned", phase="Pending", node="", ready=False),
        owned("fresh", ready_since=NOW - 10),
    ]
    gone = []
    for replicas in range(4, 0, -1):
        env = scene(web_replica_set(replicas), pods=pods)
        gone.append(set(deleted_keys(env.sync())))
    first, *others = [keys - before for keys, before in zip(gone, [set(), *gone], strict=False)]
    assert [first, *others] == [{"default/unassigned"}, {"default/pending"}, {"default/unready"}, {"default/fresh"}]


SIBLINGS = [
    web_replica_set(1, meta={"ownerReferences": [CONTROLLER]}),
    web_replica_set(3, name="old", labels={"app": "old"}, meta={"ownerReferences": [CONTROLLER]}),
    web_replica_set(3, name="stranger", labels={"app": "stranger"}),
]
CROWDS = [
    owned("a", node="n1"),
    owned("b", node="n2"),
    *(owned(f"o{i}", SIBLINGS[1], labels={"app": "old"}, node="n2") for i in range(2)),
    *(owned(f"s{i}", SIBLINGS[2], labels={"app": "stranger"}, node="n1") for i in range(3)),
]


def test_pods_on_nodes_with_related_pods_are_deleted_first(scene: Callable[..., Any]) -> None:
    assert deleted_keys(scene(*SIBLINGS, pods=CROWDS).sync()) == ["default/b"]
    swapped = [{**each, "spec": {"nodeName": {"n1": "n2", "n2": "n1"}[each["spec"]["nodeName"]]}} for each in CROWDS]
    assert deleted_keys(scene(*SIBLINGS, pods=[swapped[1], swapped[0], *swapped[2:]]).sync()) == ["default/b"]


def test_related_replica_set_with_invalid_selector_is_ignored(scene: Callable[..., Any]) -> None:
    broken = {**SIBLINGS[1], "spec": {**SIBLINGS[1]["spec"], "selector": {"matchLabels": {"app": 1}}}}
    pods = [owned("a", node="n1", ready_since=NOW - 10), *CROWDS[1:]]
    assert deleted_keys(scene(SIBLINGS[0], broken, pods=pods).sync()) == ["default/a"]


def test_replica_set_without_owner_has_no_related_pods(scene: Callable[..., Any]) -> None:
    alone = [{**each, "metadata": {**each["metadata"], "ownerReferences": []}} for each in SIBLINGS]
    pods = [owned("a", node="n1", ready_since=NOW - 10), *CROWDS[1:]]
    assert deleted_keys(scene(*alone, pods=pods).sync()) == ["default/a"]


def test_age_ratios_of_deleted_pods_are_measured(scene: Callable[..., Any]) -> None:
    pods = [owned("a", created=NOW - 100, ready_since=NOW - 10), owned("b", created=NOW - 50, ready_since=NOW - 9000)]
    env = scene(web_replica_set(1), pods=pods)
    assert deleted_keys(env.sync()) == ["default/a"]
    assert env.ratios == [2.0]
    env = scene(web_replica_set(0), pods=pods)
    env.sync()
    assert env.ratios == []  # no choice: all pods are deleted


# The status.


def test_status_counts_the_created_pods(scene: Callable[..., Any]) -> None:
    env = scene(
        web_replica_set(3, generation=4), pods=[owned("a"), owned("b", labels={**WEB, "more": "yes"}, ready=False)]
    )
    env.sync()
    assert env.status() == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "terminatingReplicas": 0,
        "observedGeneration": 4,
    }
    assert env.sync().commands == []


def test_unchanged_status_is_not_written(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(1), pods=[owned("a")])
    assert [type(command) for command in env.sync().commands] == [Update]
    assert env.sync().commands == []


def test_only_matching_terminating_pods_are_counted(scene: Callable[..., Any]) -> None:
    pods = [
        owned("a", metadata=DELETING),
        owned("b", labels={"app": "x"}, metadata=DELETING),
        owned("c", phase="Failed", metadata=DELETING),
    ]
    env = scene(web_replica_set(0), pods=pods)
    env.sync()
    assert env.status()["terminatingReplicas"] == 1


# minReadySeconds; seconds since each pod became ready; requeue after
READINESS = {
    "one soon": (5, [0, 2, 4.3], 0.7),
    "all available": (5, [5, 6], None),
    "none ready": (5, [], None),
    "no minReadySeconds": (0, [0], None),
    "an unknown ready time": (5, [None], 5.0),
}


@pytest.mark.parametrize(("min_ready_seconds", "ages", "seconds"), READINESS.values(), ids=READINESS)
def test_replica_set_is_requeued_until_a_pod_becomes_available(
    scene: Callable[..., Any], min_ready_seconds: int, ages: Any, seconds: float | None
) -> None:
    pods = []
    for i, age in enumerate(ages):
        env = owned(f"p{i}", ready_since=NOW)
        condition = env["status"]["conditions"][0]
        condition.pop("lastTransitionTime")
        if age is not None:  # tenths of a second, which times of a real server do not have
            condition["lastTransitionTime"] = f"2027-01-15T07:59:{60 - age:06.3f}Z" if age else "2027-01-15T08:00:00Z"
        pods.append(env)
    driven = scene(web_replica_set(len(ages), minReadySeconds=min_ready_seconds), pods=pods).sync()
    if seconds is None:
        assert driven.result is None
    else:
        assert driven.result.seconds == pytest.approx(seconds, abs=1e-3)


# Malformed objects.

MALFORMED = [
    ({"spec": None}, "spec is a map"),
    ({"spec": {"selector": {"matchLabels": WEB}}}, "spec.template is a map"),
    ({"spec": {"template": {"metadata": {"labels": ["app"]}}}}, "spec.template.metadata.labels is a map"),
    ({"spec": {"template": {"metadata": "web"}}}, "spec.template.metadata.labels is a map"),
    ({"spec": {"template": {}}}, "spec.selector is a map"),
    ({"spec": {"template": {}, "selector": ["app"]}}, "spec.selector is a map"),
    ({"spec": {"template": {}, "selector": {}}}, "spec.selector is empty"),
    ({"spec": {"template": {}, "selector": {"matchLabels": {"app": 1}}}}, "not a label selector"),
    ({"spec": {"template": {}, "selector": {"matchLabels": WEB}, "replicas": "3"}}, "spec.replicas is a number"),
    ({"spec": {"template": {}, "selector": {"matchLabels": WEB}, "replicas": True}}, "spec.replicas is a number"),
    ({"spec": {"template": {}, "selector": {"matchLabels": WEB}, "replicas": -1}}, "spec.replicas is a number"),
    (
        {"spec": {"template": {}, "selector": {"matchLabels": WEB}, "minReadySeconds": 1.5}},
        "spec.minReadySeconds is a number",
    ),
    ({"spec": {"template": {}, "selector": {"matchLabels": WEB}}, "status": "ok"}, "status is a map"),
]


@pytest.mark.parametrize(("parts", "why"), MALFORMED)
def test_error_names_the_malformed_field(parts: Object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replica_spec(parts, REPLICASET)


def test_nothing_is_done_for_a_malformed_replica_set(scene: Callable[..., Any]) -> None:
    env = scene(web_replica_set(replicas="three"), pods=[running_pod("a", labels=WEB)])
    driven = env.sync(raises=ValueError)
    assert driven.commands == []
