"""Progress deadline of rollouts."""

from __future__ import annotations

import pytest

from kcm.actors.reconciliation import RequeueAfter
from kcm.protocols.objects import name_of
from tests.actors.controllers.workloads.deployment.cluster import Cluster


@pytest.fixture
def stuck() -> Cluster:
    """Return a rollout whose new pod does not become ready."""
    web = Cluster()
    web.create_deployment(2, progressDeadlineSeconds=60)
    web.roll_out()
    web.set_image("web:2")
    web.settle()
    web.run_replica_sets()
    web.settle()
    return web


def test_deployment_is_requeued_until_its_deadline(stuck: Cluster) -> None:
    assert stuck.sync().result == RequeueAfter(61.0)
    stuck.clock.advance(45.5)
    assert stuck.sync().result == RequeueAfter(15.5)
    stuck.clock.advance(14)
    assert stuck.sync().result == RequeueAfter(1.0)
    assert stuck.condition()[1] == "ReplicaSetUpdated"


def test_rollout_fails_after_its_deadline_without_requeue(stuck: Cluster) -> None:
    stuck.clock.advance(60.5)
    driven = stuck.sync()
    new = name_of(stuck.replica_sets()[2])
    assert stuck.condition() == (
        "False",
        "ProgressDeadlineExceeded",
        f'ReplicaSet "{new}" has timed out progressing.',
    )
    assert driven.result is None
    assert driven.events == []
    stuck.clock.advance(3600)
    assert (stuck.sync().commands, stuck.driven[-1].result) == ([], None)


def test_failed_rollout_that_continues_is_progressing(stuck: Cluster) -> None:
    stuck.clock.advance(61)
    stuck.settle()
    stuck.roll_out()
    assert stuck.condition()[:2] == ("True", "NewReplicaSetAvailable")


def test_paused_failed_rollout_stays_failed(stuck: Cluster) -> None:
    stuck.clock.advance(61)
    stuck.settle()
    stuck.set(paused=True)
    stuck.settle()
    assert stuck.condition()[1] == "ProgressDeadlineExceeded"


def test_complete_deployment_is_not_requeued_when_its_pods_fail() -> None:
    web = Cluster()
    web.create_deployment(2)
    web.roll_out()
    assert web.sync().result is None
    web.clock.advance(10_000)
    web.edit_pods(conditions=[])
    web.run_replica_sets()
    web.settle()
    assert web.condition()[1] == "NewReplicaSetAvailable"
    assert web.condition("Available")[0] == "False"
    assert web.sync().result is None


def test_deployment_without_deadline_has_no_progressing_condition(stuck: Cluster) -> None:
    stuck.set(progressDeadlineSeconds=2147483647)
    driven = stuck.sync()
    assert driven.result is None
    assert [each["type"] for each in stuck.deployment["status"]["conditions"]] == ["Available"]
