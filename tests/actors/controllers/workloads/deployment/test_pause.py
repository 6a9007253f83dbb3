"""Paused Deployments are scaled and their history is limited, but they do not roll out."""

from __future__ import annotations

import pytest

from kcm.actors.simulation.driver import bodies
from kcm.protocols.messages.commands import Delete, Update
from tests.actors.controllers.workloads.deployment.cluster import Cluster


@pytest.fixture
def web() -> Cluster:
    cluster = Cluster()
    cluster.create_deployment(4)
    cluster.roll_out()
    return cluster


def test_paused_deployment_has_condition_and_does_not_roll(web: Cluster) -> None:
    web.set(paused=True)
    web.set_image("web:2")
    web.roll_out()
    assert web.sizes() == {1: 4}
    assert web.condition() == ("Unknown", "DeploymentPaused", "Deployment is paused")
    assert web.deployment["status"]["observedGeneration"] == web.deployment["metadata"]["generation"]
    assert web.deployment["status"].get("updatedReplicas", 0) == 0

    web.set(paused=False)
    web.sync()
    (resumed,) = [
        each for each in bodies(web.driven[-1], Update)[0]["status"]["conditions"] if each["type"] == "Progressing"
    ]
    assert (resumed["status"], resumed["reason"], resumed["message"]) == (
        "Unknown",
        "DeploymentResumed",
        "Deployment is resumed",
    )
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 4}
    assert web.condition()[1] == "NewReplicaSetAvailable"


def test_deployment_created_paused_creates_nothing() -> None:
    web = Cluster()
    web.create_deployment(4, paused=True)
    assert web.settle() == []
    assert web.sizes() == {}
    assert web.sync().commands == []


def test_paused_deployment_without_deadline_has_no_progressing_condition() -> None:
    web = Cluster()
    web.create_deployment(4, progressDeadlineSeconds=2147483647)
    web.roll_out()
    web.set(paused=True)
    web.roll_out()
    assert [each["type"] for each in web.deployment["status"]["conditions"]] == ["Available"]


def test_paused_deployment_is_scaled(web: Cluster) -> None:
    web.set(paused=True)
    web.set(replicas=6)
    web.roll_out()
    assert web.sizes() == {1: 6}


def test_paused_rollout_is_scaled_proportionally(web: Cluster) -> None:
    web.set_image("web:2")
    web.settle()
    web.run_replica_sets()
    web.make_ready()
    web.run_replica_sets()
    web.settle()
    assert web.sizes() == {1: 3, 2: 2}
    web.set(paused=True)
    web.set(replicas=9)
    web.roll_out()
    assert web.sizes() == {1: 6, 2: 4}
    web.set(paused=False)
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 9}


def test_paused_deployment_limits_history_unless_a_rollback_is_requested(web: Cluster) -> None:
    for image in ("web:2", "web:3"):
        web.set_image(image)
        web.roll_out()
    web.set(paused=True, revisionHistoryLimit=1)
    web.annotate(**{"deprecated.deployment.rollback.to": "1"})
    assert web.sync().of(Delete) == []
    web.edit(lambda obj: obj["metadata"]["annotations"].pop("deprecated.deployment.rollback.to"))
    assert len(web.sync().of(Delete)) == 1
    assert sorted(web.replica_sets()) == [2, 3]


def test_pause_does_not_count_towards_the_deadline(web: Cluster) -> None:
    web.set(progressDeadlineSeconds=60)
    web.set_image("web:2")
    web.settle()
    web.clock.advance(50)
    web.set(paused=True)
    web.settle()
    web.clock.advance(3600)
    web.set(paused=False)
    web.settle()
    web.clock.advance(59)
    web.settle()
    assert web.condition()[1] == "DeploymentResumed"
    web.clock.advance(2)
    web.settle()
    assert web.condition()[1] == "ProgressDeadlineExceeded"
