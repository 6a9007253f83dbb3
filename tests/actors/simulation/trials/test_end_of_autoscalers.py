"""Settled states of HorizontalPodAutoscalers."""

from __future__ import annotations

from kcm.actors.controllers.workloads import horizontal_pod_autoscaler
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.metrics_server import metrics_server
from kcm.actors.simulation.trials.workloads.horizontal_pod_autoscaler import TRIAL
from kcm.protocols.objects import resource_version_of
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, REPLICASETS


def is_settled(cluster: SimulatedCluster) -> bool:
    return list(TRIAL.unsettled(cluster)) == []


def test_recommendation_from_before_a_restart_is_not_final() -> None:
    """False alarm, seed 53000059: the managers were restarted when everything had settled.

    The new manager used the current replicas as a recommendation, so scaling down was stabilized for another minute. It
    wrote the end of this period when the system had to be quiet.
    """
    cluster = SimulatedCluster()
    metrics_server(cluster).external["web"] = ["0"]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    cluster.create(REPLICASETS, {"metadata": {"name": "web"}, "spec": spec})
    cluster.merge(REPLICASETS, "default/web", {"status": {"replicas": 2}}, subresource="status")
    load = {"metric": {"name": "web"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    autoscaler = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 4,
        "metrics": [{"type": "External", "external": load}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
    }
    cluster.create(HORIZONTAL_POD_AUTOSCALERS, {"metadata": {"name": "web"}, "spec": autoscaler})
    cluster.manager(controllers=[horizontal_pod_autoscaler.SPEC])

    def version() -> str:
        (found,) = cluster.list(HORIZONTAL_POD_AUTOSCALERS)
        return resource_version_of(found)

    assert cluster.run_until(lambda: is_settled(cluster), within=100.0)
    cluster.start_again("manager")
    assert not is_settled(cluster)
    assert cluster.run_until(lambda: is_settled(cluster), within=100.0)
    settled = version()
    cluster.run_for(120.0)
    assert version() == settled
