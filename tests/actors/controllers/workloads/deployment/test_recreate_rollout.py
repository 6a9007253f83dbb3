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


def test_first_replica_set_is_created_at_full_size(web: Cluster) -> None:
    assert web.sizes() == {1: 3}
    (replica_set,) = web.all(REPLICASETS)
    assert web.events == [
        ("Normal", "ScalingReplicaSet", f"Scaled up replica set {name_of(replica_set)} from 0 to 3"),
    ]
    assert replica_set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] == "3"


def test_old_pods_are_deleted_before_new_ones_are_created(web: Cluster) -> None:
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


def test_message_names_the_deployment_before_the_new_replica_set_exists(web: Cluster) -> None:
    web.set_image("web:2")
    web.settle()
    web.edit_status(REPLICASETS, name_of(web.replica_sets()[1]), replicas=1, readyReplicas=1, availableReplicas=1)
    web.settle()
    assert web.condition() == ("True", "ReplicaSetUpdated", 'Deployment "web" is progressing.')


def test_existing_old_pod_delays_the_rollout_even_if_unreported(web: Cluster) -> None:
    web.set_image("web:2")
    web.settle()
    old = web.replica_sets()[1]
    none = {"replicas": 0, "readyReplicas": 0, "availableReplicas": 0}
    web.edit_status(REPLICASETS, name_of(old), observedGeneration=old["metadata"]["generation"], **none)
    assert web.sync().of(Create) == []
    web.edit_pods(phase="Failed")
    assert len(web.sync().of(Create)) == 1


def test_unobserved_scale_down_delays_the_rollout(web: Cluster) -> None:
    """The ReplicaSet was created and scaled down before its late controller created its first pod."""
    web = Cluster()
    web.create_deployment(3, strategy=RECREATE)
    web.settle()
    web.set_image("web:2")
    web.settle()
    assert web.sizes() == {1: 0}
    web.run_replica_sets()
    web.settle()
    assert web.sizes() == {1: 0, 2: 3}


def test_reverted_template_scales_its_old_replica_set_to_full_size(web: Cluster) -> None:
    for image in ("web:2", "web:1"):
        web.set_image(image)
        web.roll_out()
    assert web.sizes() == {2: 0, 3: 3}
    assert len(web.all(REPLICASETS)) == 2


def test_history_is_limited(web: Cluster) -> None:
    web.set(revisionHistoryLimit=1)
    for image in ("web:2", "web:3", "web:4"):
        web.set_image(image)
        web.roll_out()
    assert sorted(web.replica_sets()) == [3, 4]


@pytest.mark.parametrize("killed_after", [1, 2, 3])
def test_old_and_new_pods_never_run_together_despite_a_crash(web: Cluster, killed_after: int) -> None:
    web.set_image("web:2")
    for _ in range(6):
        web.sync(stop_after=killed_after)
        web.restart()
        web.run_replica_sets()
        assert len({pod["spec"]["containers"][0]["image"] for pod in web.all(PODS)}) <= 1
    web.roll_out()
    assert web.sizes() == {1: 0, 2: 3}
