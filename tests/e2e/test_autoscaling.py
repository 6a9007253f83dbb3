"""Autoscaler of containers without CPU requests: the bounds hold, and a condition names what is missing.

The page docs/autoscaling.md, which test_tour.py runs, scales by usage.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Site
from tests.e2e.kubectl import Kubectl
from tests.e2e.manifests import deployment
from tests.e2e.programs import until

HPAS = "autoscaling/v2/horizontalpodautoscalers"


@pytest.fixture
def kubectl(own_cluster: Site) -> Kubectl:
    return own_cluster.namespace("autoscaling")


def test_a_deployment_is_kept_within_the_bounds_of_its_autoscaler(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web", 1))
    kubectl("autoscale", "deployment", "web", "--min=3", "--max=5", "--cpu-percent=50")
    kubectl.until_pods(3, "app=web")
    assert "New size: 3; reason: Current number of replicas below Spec.MinReplicas" in kubectl(
        "events", "--for=hpa/web"
    )
    kubectl("scale", "deployment", "web", "--replicas=7")
    until(lambda: kubectl.get("apps/v1/deployments", "web")["spec"]["replicas"] == 5, "it is scaled back to 5")
    reason = "-o=jsonpath={.status.conditions[?(@.type=='ScalingActive')].reason}"
    until(
        lambda: kubectl("get", "hpa", "web", reason) == "FailedGetResourceMetric",
        "the condition reports the missing requests",
    )
    assert "Deployment/web" in kubectl("get", "hpa")
