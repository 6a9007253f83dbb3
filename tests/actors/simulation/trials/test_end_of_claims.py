"""Claims in the end state of a run."""

from __future__ import annotations

import pytest

from kcm.actors.hollow.provisioner import CLASS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.storage.persistentvolume_binder import TRIAL
from kcm.protocols.objects import Object
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS


def small_claim(name: str, *, of_a_set: bool) -> Object:
    labels = {"labels": {"app": "db"}} if of_a_set else {}
    request = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    return {
        "metadata": {"name": name, "namespace": "default", **labels},
        "spec": {"storageClassName": CLASS, **request},
    }


def user_of(name: str) -> Object:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    spec = {"containers": [{"name": "c", "image": "v1"}], "volumes": [volume]}
    return {"metadata": {"name": "user", "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(
    ("of_a_set", "used", "counts"),
    [(False, False, True), (False, True, True), (True, True, True), (True, False, False)],
)
def test_unused_claim_of_a_set_is_excluded(
    cluster: SimulatedCluster, *, of_a_set: bool, used: bool, counts: bool
) -> None:
    """False alarm, seed 91003564 of swarm: a set was scaled up, and down again before it had created all pods."""
    cluster.create(PERSISTENT_VOLUME_CLAIMS, small_claim("data-0-db-3", of_a_set=of_a_set))
    if used:
        cluster.create(PODS, user_of("data-0-db-3"))
    assert list(TRIAL.end_state(cluster)) == (["claim data-0-db-3"] if counts else [])
