"""Rolling updates, from the first ReplicaSet to the removal of the last old pod."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcm.actors.reconciliation import Retry
from kcm.actors.simulation.driver import Driven
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create, Delete, Get, Patch, Update
from kcm.protocols.objects import Object, annotations_of, decode_object, encode_object, name_of, uid_of
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.deployment.cluster import Cluster
from tests.actors.controllers.workloads.deployment.objects import LABELS, template

HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED, MAX = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"


@pytest.fixture
def web() -> Cluster:
    cluster = Cluster()
    cluster.create_deployment(3)
    return cluster


@pytest.fixture
def rolled_out(web: Cluster) -> Cluster:
    web.roll_out()
    return web


def scaled(direction: str, replica_set: Object, before: int, after: int) -> tuple[str, ...]:
    message = f"Scaled {direction} replica set {name_of(replica_set)} from {before} to {after}"
    return ("Normal", "ScalingReplicaSet", message)


def writes(driven: Driven) -> list[tuple[str, ...]]:
    return [
        (type(command).__name__, command.resource.rpartition("/")[2], command.subresource)
        for command in driven.of(Create, Update, Patch)
    ]


def test_new_deployment_gets_replica_set_and_status_in_one_sync(web: Cluster) -> None:
    driven = web.sync()
    created = web.replica_sets()[1]
    assert writes(driven) == [
        ("Create", "replicasets", ""),
        ("Update", "deployments", "status"),
    ]
    assert driven.events == [scaled("up", created, 0, 3)]
    assert annotations_of(web.deployment) == {"deployment.kubernetes.io/revision": "1"}
    assert web.condition() == ("True", "NewReplicaSetCreated", f'Created new replica set "{name_of(created)}"')
    assert web.condition("Available")[:2] == ("False", "MinimumReplicasUnavailable")
    assert web.deployment["status"]["observedGeneration"] == 1
    assert web.deployment["status"]["unavailableReplicas"] == 3
    assert web.sync().commands == []


def test_rollout_is_complete_when_all_pods_are_available(web: Cluster) -> None:
    web.roll_out()
    status = web.deployment["status"]
    assert web.condition() == (
        "True",
        "NewReplicaSetAvailable",
        f'ReplicaSet "{name_of(web.replica_sets()[1])}" has successfully progressed.',
    )
    assert web.condition("Available") == (
        "True",
        "MinimumReplicasAvailable",
        "Deployment has minimum availability.",
    )
    assert {name: value for name, value in status.items() if name != "conditions"} == {
        "observedGeneration": 1,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "terminatingReplicas": 0,
    }


def test_new_template_is_rolled_out_within_surge_and_availability(rolled_out: Cluster) -> None:
    web = rolled_out
    web.set_image("web:2")
    sizes = []
    events = []
    while not sizes or sizes[-1] != {1: 0, 2: 3}:
        events += web.settle()
        sizes.append(web.sizes())
        web.run_replica_sets()
        assert len([pod for pod in web.all(PODS) if pod["status"]["phase"] == "Running"]) >= 3
        assert len(web.all(PODS)) <= 4
        web.make_ready(at_most=1)
        web.run_replica_sets()
    assert sizes == [{1: 3, 2: 1}, {1: 2, 2: 2}, {1: 1, 2: 3}, {1: 0, 2: 3}]
    old, new = web.replica_sets()[1], web.replica_sets()[2]
    assert events == [
        scaled("up", new, 0, 1),
        scaled("down", old, 3, 2),
        scaled("up", new, 1, 2),
        scaled("down", old, 2, 1),
        scaled("up", new, 2, 3),
        scaled("down", old, 1, 0),
    ]
    web.roll_out()
    assert web.condition()[1:] == (
        "NewReplicaSetAvailable",
        f'ReplicaSet "{name_of(new)}" has successfully progressed.',
    )
    assert annotations_of(web.deployment)["deployment.kubernetes.io/revision"] == "2"
    assert web.images() == {1: "web:1", 2: "web:2"}


def test_unavailable_then_available_old_pods_are_removed_in_one_sync() -> None:
    web = Cluster()
    web.create_deployment(4, max_surge=0, max_unavailable=2)
    web.settle()
    web.run_replica_sets()
    web.make_ready(at_most=3)
    web.run_replica_sets()
    web.settle()
    web.set_image("web:2")
    events = web.sync().events
    old = web.replica_sets()[1]
    assert events == [
        scaled("down", old, 4, 3),
        scaled("down", old, 3, 2),
    ]  # no event for the new one, which is created with size 0
    assert web.sizes() == {1: 2, 2: 0}


def test_deleted_new_replica_set_is_recreated_with_one_status_write(
    rolled_out: Cluster,
) -> None:
    web = rolled_out
    web.set_image("web:2")
    web.settle()
    before = web.deployment
    web.must(Delete(REPLICASETS.id, f"default/{name_of(web.replica_sets()[2])}", grace_seconds=0))
    assert writes(web.sync()) == [
        ("Create", "replicasets", "")
    ]  # revision and condition Progressing are already written
    assert web.sizes() == {1: 3, 2: 1}
    assert web.deployment == before


def test_repeatedly_deleted_replica_set_is_recreated_with_backoff(rolled_out: Cluster) -> None:
    """Seeds 12004064 and 11006121 of the setting `nodes`: the Deployment was deleted, and its watch was late."""
    web = rolled_out
    web.set_image("web:2")
    web.settle()

    def goes() -> None:
        web.must(Delete(REPLICASETS.id, f"default/{name_of(web.replica_sets()[2])}", grace_seconds=0))

    goes()
    assert writes(web.sync()) == [("Create", "replicasets", "")]
    goes()
    with pytest.raises(Retry, match="was deleted right after its creation"):
        web.sync()
    assert web.sizes() == {1: 3}


def test_no_status_is_written_while_the_newest_replica_set_is_not_in_the_table(rolled_out: Cluster) -> None:
    """A new leader with a broken watch of ReplicaSets would assign the same revision again."""
    web = rolled_out
    web.observe()
    web.set_image("web:2")
    web.observe(DEPLOYMENTS)
    web.reconcile()
    web.restart()
    web.set_image("web:3")
    web.observe(DEPLOYMENTS)
    assert writes(web.reconcile()) == [("Create", "replicasets", ""), ("Update", "deployments", "status")]
    assert web.deployment["status"]["observedGeneration"] == 3
    web.settle()  # the watch works again
    assert web.images() == {1: "web:1", 2: "web:2", 3: "web:3"}
    assert annotations_of(web.deployment)["deployment.kubernetes.io/revision"] == "3"


def test_progressing_condition_reports_each_step(rolled_out: Cluster) -> None:
    web = rolled_out
    web.set_image("web:2")
    web.settle()
    assert web.condition()[1] == "NewReplicaSetCreated"
    began = web.clock.now()
    web.clock.advance(60)
    web.run_replica_sets()
    web.settle()
    new = name_of(web.replica_sets()[2])
    assert web.condition() == ("True", "ReplicaSetUpdated", f'ReplicaSet "{new}" is progressing.')
    (progressing,) = [each for each in web.deployment["status"]["conditions"] if each["type"] == "Progressing"]
    assert progressing["lastUpdateTime"] == format_time(began + 60)
    assert progressing["lastTransitionTime"] < format_time(began)  # the condition was always True


def test_reverted_template_reuses_its_replica_set_with_a_new_revision(rolled_out: Cluster) -> None:
    web = rolled_out
    first = uid_of(web.replica_sets()[1])
    for image in ("web:2", "web:1", "web:2", "web:1"):
        web.set_image(image)
        web.roll_out()
    assert len(web.all(REPLICASETS)) == 2
    assert web.sizes() == {4: 0, 5: 3}
    back = web.replica_sets()[5]
    assert uid_of(back) == first
    assert annotations_of(back)[HISTORY] == "1,3"
    assert annotations_of(web.replica_sets()[4])[HISTORY] == "2"
    assert annotations_of(web.deployment)["deployment.kubernetes.io/revision"] == "5"
    assert web.condition()[1] == "NewReplicaSetAvailable"


def test_rollout_starts_before_the_previous_one_has_ended(rolled_out: Cluster) -> None:
    web = rolled_out
    web.set_image("web:2")
    web.settle()
    web.run_replica_sets()
    web.set_image("web:3")
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 0, 3: 3}
    assert {pod["spec"]["containers"][0]["image"] for pod in web.all(PODS)} == {"web:3"}


def test_new_size_during_a_rollout_is_distributed(rolled_out: Cluster) -> None:
    web = rolled_out
    web.set(replicas=8)
    web.roll_out()
    web.set_image("web:2")
    web.settle()
    web.run_replica_sets()
    web.make_ready()
    web.run_replica_sets()
    web.settle()
    assert web.sizes() == {1: 7, 2: 2}
    web.set(replicas=17)
    events = web.sync().events
    assert web.sizes() == {1: 14, 2: 4}
    old, new = web.replica_sets()[1], web.replica_sets()[2]
    assert events == [scaled("up", old, 7, 14), scaled("up", new, 2, 4)]
    assert [annotations_of(each)[DESIRED] for each in (old, new)] == ["17", "17"]
    assert [annotations_of(each)[MAX] for each in (old, new)] == ["18", "18"]
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 17}


def test_unchanged_share_is_annotated_without_event(rolled_out: Cluster) -> None:
    web = rolled_out
    web.set_image("web:2")
    web.settle()
    assert web.sizes() == {1: 3, 2: 1}
    web.set(replicas=4)
    events = web.sync().events
    assert web.sizes() == {1: 4, 2: 1}
    assert events == [scaled("up", web.replica_sets()[1], 3, 4)]
    assert [annotations_of(each)[DESIRED] for each in web.replica_sets().values()] == ["4", "4"]


def test_scaling_does_not_change_old_replica_sets(rolled_out: Cluster) -> None:
    web = rolled_out
    web.set_image("web:2")
    web.roll_out()
    web.set(replicas=5, revisionHistoryLimit=0)
    assert web.sync().of(Delete) == []
    web.roll_out()
    assert sorted(web.replica_sets()) == [2]


def test_scaling_creates_no_revision(rolled_out: Cluster) -> None:
    web = rolled_out
    web.set(replicas=5)
    events = web.sync().events
    assert events == [scaled("up", web.replica_sets()[1], 3, 5)]
    assert web.deployment["status"]["unavailableReplicas"] == 2
    assert web.roll_out() == []
    web.set(replicas=0)
    web.roll_out()
    assert web.sizes() == {1: 0}
    assert web.all(PODS) == []


def test_annotations_and_min_ready_seconds_are_copied_to_the_new_replica_set(rolled_out: Cluster) -> None:
    web = rolled_out
    web.annotate(note="seen")
    web.set(minReadySeconds=7)
    driven = web.sync()
    assert writes(driven)[0] == ("Update", "replicasets", "")
    assert annotations_of(web.replica_sets()[1])["note"] == "seen"
    assert web.replica_sets()[1]["spec"]["minReadySeconds"] == 7
    web.settle()
    assert web.deployment["status"]["observedGeneration"] == web.deployment["metadata"]["generation"]


@pytest.mark.parametrize("limit, revisions", [(0, [4]), (2, [2, 3, 4]), (10, [1, 2, 3, 4])])
def test_history_is_limited_when_a_rollout_is_complete(limit: int, revisions: Sequence[int]) -> None:
    web = Cluster()
    web.create_deployment(1, revisionHistoryLimit=limit)
    for image in ("web:1", "web:2", "web:3", "web:4"):
        web.set_image(image)
        web.roll_out()
    assert sorted(web.replica_sets()) == revisions


def test_terminating_deployment_gets_only_its_status(web: Cluster) -> None:
    web.edit(lambda obj: obj["metadata"].update(finalizers=["example.com/hold"]))
    web.delete_deployment()
    driven = web.sync()
    assert writes(driven) == [("Update", "deployments", "status")]
    assert web.all(REPLICASETS) == []


def test_deleted_deployment_is_ignored(web: Cluster) -> None:
    web.delete_deployment()
    assert web.sync().commands == []


# Adoption and release.


def test_orphan_with_the_template_is_adopted_as_new_replica_set(rolled_out: Cluster) -> None:
    web = rolled_out
    name = name_of(web.replica_sets()[1])
    web.edit(lambda obj: obj["metadata"].pop("ownerReferences"), REPLICASETS, name)
    driven = web.sync()
    assert [type(command) for command in driven.commands[:2]] == [Get, Patch]
    assert len(web.all(REPLICASETS)) == 1
    assert web.replica_sets()[1]["metadata"]["ownerReferences"][0]["uid"] == uid_of(web.deployment)
    web.settle()
    assert web.condition()[1] == "NewReplicaSetAvailable"


def test_found_replica_set_starts_the_progress_deadline(web: Cluster) -> None:
    web.sync()
    web.set_status({})
    web.sync()
    name = name_of(web.replica_sets()[1])
    assert web.condition() == ("True", "FoundNewReplicaSet", f'Found new replica set "{name}"')


def test_unselected_replica_set_is_released_and_replaced(rolled_out: Cluster) -> None:
    web = rolled_out
    name = name_of(web.replica_sets()[1])
    web.edit(lambda obj: obj["metadata"].update(labels={"app": "debugged"}), REPLICASETS, name)
    web.sync(raises=CommandError)  # it still has the name that the new one would have
    released = next(each for each in web.all(REPLICASETS) if name_of(each) == name)
    assert not released["metadata"].get("ownerReferences")
    web.settle()
    assert len(web.all(REPLICASETS)) == 2
    assert web.deployment["status"]["collisionCount"] == 1


def test_deployment_replaced_on_the_server_adopts_nothing(rolled_out: Cluster) -> None:
    web = rolled_out
    name = name_of(web.replica_sets()[1])
    web.edit(lambda obj: obj["metadata"].pop("ownerReferences"), REPLICASETS, name)
    web.observe()
    web.delete_deployment()
    web.create_deployment(3)
    driven = web.reconcile(raises=CommandError)
    assert "can't adopt ReplicaSet" in str(driven.error)
    assert [type(command) for command in driven.commands] == [Get]


# Own writes.


def test_own_writes_are_visible_before_the_watch_shows_them(web: Cluster) -> None:
    web.observe()
    assert len(web.reconcile().of(Create)) == 1
    for _ in range(3):
        assert web.reconcile().commands == []
    web.set_image("web:2")
    web.observe(DEPLOYMENTS)
    assert len(web.reconcile().of(Create)) == 1
    for _ in range(3):
        assert web.reconcile().commands == []
    assert web.sizes() == {1: 3, 2: 1}


@pytest.mark.parametrize("killed_after", [1, 2, 3])
def test_restart_after_any_write_resumes_the_rollout(web: Cluster, killed_after: int) -> None:
    web.sync(stop_after=killed_after)
    web.restart()
    web.roll_out()
    assert web.sizes() == {1: 3}
    assert len(web.all(PODS)) == 3
    assert web.condition()[1] == "NewReplicaSetAvailable"


@pytest.mark.parametrize("killed_after", range(1, 4))
@pytest.mark.parametrize("steps", range(4))
def test_rollout_completes_after_a_crash_at_any_step(rolled_out: Cluster, steps: int, killed_after: int) -> None:
    web = rolled_out
    web.set_image("web:2")
    for _ in range(steps):
        web.settle()
        web.run_replica_sets()
        web.make_ready(at_most=1)
        web.run_replica_sets()
    web.sync(stop_after=killed_after)
    web.restart()
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 3}
    assert len(web.all(PODS)) == 3


def test_replica_set_is_found_by_template_instead_of_name(web: Cluster) -> None:
    """Another implementation has used another hash."""
    made = decode_object(web.sync().of(Create)[0].body)
    fresh = Cluster()
    fresh.create_deployment(3)
    hashed = {"pod-template-hash": "5d4f8c7b9"}
    made["metadata"] |= {"name": "web-5d4f8c7b9", "labels": {**LABELS, **hashed}}
    made["metadata"]["ownerReferences"][0]["uid"] = uid_of(fresh.deployment)
    made["spec"] |= {"selector": {"matchLabels": {**LABELS, **hashed}}, "template": template(**hashed)}
    fresh.must(Create(REPLICASETS.id, "default", encode_object(made)))
    fresh.roll_out()
    assert [name_of(each) for each in fresh.all(REPLICASETS)] == ["web-5d4f8c7b9"]
    assert fresh.sizes() == {1: 3}
