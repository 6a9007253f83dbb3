"""Recreate: never an old and a new pod at once."""

from __future__ import annotations

import pytest

from kcm.protocols.messages.commands import Create
from kcm.protocols.objects import name_of
from kcm.protocols.resources import PODS, REPLICASETS
from tests.actors.controllers.workloads.deployment.cluster import Cluster
from tests.actors.controllers.workloads.deployment.objects import RECREATE


@pytest.fixture
def web() -> Cluster:
    cluster = Cluster()
    cluster.create_deployment(3, strategy=RECREATE)
    cluster.roll_out()
    return cluster


def test_the_first_replica_set_is_made_at_full_size(web: Cluster) -> None:
    assert web.sizes() == {1: 3}
    (replica_set,) = web.all(REPLICASETS)
    assert web.events == [
        ("Normal", "ScalingReplicaSet", f"Scaled up replica set {name_of(replica_set)} from 0 to 3"),
    ]
    assert replica_set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] == "3"


def test_old_pods_are_stopped_then_waited_for_then_replaced(web: Cluster) -> None:
    web.set_image("web:2")
    events = web.settle()
    assert web.sizes() == {1: 0}
    old = name_of(web.replica_sets()[1])
    assert events == [("Normal", "ScalingReplicaSet", f"Scaled down replica set {old} from 3 to 0")]
    web.run_replica_sets()
    assert web.all(PODS) == []
    (event,) = web.settle()
    new = name_of(web.replica_sets()[2])
    assert event == ("Normal", "ScalingReplicaSet", f"Scaled up replica set {new} from 0 to 3")
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 3}
    assert web.condition()[1:] == ("NewReplicaSetAvailable", f'ReplicaSet "{new}" has successfully progressed.')


def test_until_there_is_a_new_replica_set_the_message_names_the_deployment(web: Cluster) -> None:
    web.set_image("web:2")
    web.settle()
    web.edit_status(REPLICASETS, name_of(web.replica_sets()[1]), replicas=1, readyReplicas=1, availableReplicas=1)
    web.settle()
    assert web.condition() == ("True", "ReplicaSetUpdated", 'Deployment "web" is progressing.')


def test_a_pod_that_is_still_there_is_waited_for_though_its_replica_set_reports_none(web: Cluster) -> None:
    web.set_image("web:2")
    web.settle()
    old = web.replica_sets()[1]
    none = {"replicas": 0, "readyReplicas": 0, "availableReplicas": 0}
    web.edit_status(REPLICASETS, name_of(old), observedGeneration=old["metadata"]["generation"], **none)
    assert web.sync().of(Create) == []
    web.edit_pods(phase="Failed")
    assert len(web.sync().of(Create)) == 1


def test_a_replica_set_that_has_not_heard_of_its_end_is_waited_for(web: Cluster) -> None:
    """It was made and changed again before its controller, which is late, made the first of its pods."""
    web = Cluster()
    web.create_deployment(3, strategy=RECREATE)
    web.settle()
    web.set_image("web:2")
    web.settle()
    assert web.sizes() == {1: 0}
    web.run_replica_sets()
    web.settle()
    assert web.sizes() == {1: 0, 2: 3}


def test_going_back_reuses_the_old_replica_set_and_scales_it_to_full_size(web: Cluster) -> None:
    for image in ("web:2", "web:1"):
        web.set_image(image)
        web.roll_out()
    assert web.sizes() == {2: 0, 3: 3}
    assert len(web.all(REPLICASETS)) == 2


def test_history_is_kept_up_to_its_limit(web: Cluster) -> None:
    web.set(revisionHistoryLimit=1)
    for image in ("web:2", "web:3", "web:4"):
        web.set_image(image)
        web.roll_out()
    assert sorted(web.replica_sets()) == [3, 4]


@pytest.mark.parametrize("killed_after", [1, 2, 3])
def test_old_and_new_pods_never_run_together_whenever_it_is_killed(web: Cluster, killed_after: int) -> None:
    web.set_image("web:2")
    for _ in range(6):
        web.sync(stop_after=killed_after)
        web.restart()
        web.run_replica_sets()
        assert len({pod["spec"]["containers"][0]["image"] for pod in web.all(PODS)}) <= 1
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 3}
