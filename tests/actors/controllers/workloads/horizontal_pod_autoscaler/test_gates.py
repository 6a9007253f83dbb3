"""Feature gates of autoscalers, on and off."""

from __future__ import annotations

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import AT_ONCE, Scaled, external
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scene import KEY, Scene, autoscaler

ON_AND_OFF = pytest.mark.parametrize("on", [True, False])


def gated(gate: str, on: bool) -> str:
    return f"--feature-gates={gate}={str(on).lower()}"


@ON_AND_OFF
def test_target_is_scaled_to_zero_and_back_with_the_gate(log: FilteringBoundLogger, on: bool) -> None:
    """A server without the gate rejects minReplicas 0, and this server has it off."""
    scaled = Scaled(log, gated("HPAScaleToZero", on))
    scaled.workload("web", 2)
    scaled.metrics.external["queue"] = ["0"]
    scaled.cluster.run_for(20.0)
    scaled.autoscaler("web", external({"value": "10"}), behavior={"scaleDown": AT_ONCE})
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(
            "kcm.runtime.apiserver.kinds.autoscaling.horizontal_pod_autoscaler._validate_spec", lambda *_, **__: []
        )
        scaled.cluster.merge(HORIZONTAL_POD_AUTOSCALERS, "default/web", {"spec": {"minReplicas": 0}})
    scaled.run(2)
    assert scaled.replicas() == 0
    assert scaled.condition("ScaledToZero") == (("True", "ScaledToZero") if on else ("", ""))
    scaled.metrics.external["queue"] = ["25"]
    scaled.run()
    assert scaled.replicas() == (3 if on else 0)
    if on:
        assert scaled.condition("ScaledToZero") == ("False", "NotScaledToZero")
    else:
        assert scaled.condition("ScalingActive") == ("False", "ScalingDisabled")


@ON_AND_OFF
def test_tolerance_of_the_autoscaler_is_used_with_the_gate(log: FilteringBoundLogger, on: bool) -> None:
    scaled = Scaled(log, gated("HPAConfigurableTolerance", on))
    scaled.use("60m")
    scaled.workload("web", 5)
    scaled.cluster.run_for(30.0)
    scaled.autoscaler("web", behavior={"scaleUp": {"tolerance": "250m"}})  # 60 % of 50 % is 1.2
    scaled.run(2)
    assert scaled.replicas() == (5 if on else 6)


@ON_AND_OFF
def test_pod_level_requests_count_with_the_gate(log: FilteringBoundLogger, on: bool) -> None:
    dependent = "InPlacePodLevelResourcesVerticalScaling"  # upstream refuses it without the other
    scaled = Scaled(log, f"{gated(dependent, on)},PodLevelResources={str(on).lower()}")
    for number in range(2):
        container = {"name": "c", "image": "i"}
        spec = {"containers": [container], "resources": {"requests": {"cpu": "100m"}}}
        scaled.cluster.create(PODS, {"metadata": {"name": f"p{number}", "labels": {"app": "web"}}, "spec": spec})
    scaled.cluster.run_for(30.0)
    scaled.workload("web", 1)
    scaled.autoscaler("web", minReplicas=1)
    scaled.run(2)
    assert scaled.condition("ScalingActive")[1] == ("FailedGetResourceMetric" if not on else "ValidMetricFound")


@pytest.mark.parametrize(("at_once", "delays"), [(True, [0.0, 15.0, 0.0]), (False, [15.0, 15.0, 15.0])])
def test_new_spec_is_evaluated_at_once_from_the_release_that_does_so(at_once: bool, delays: list[float]) -> None:
    shown = autoscaler()
    scene, found = Scene(shown, at_once=at_once), []
    status = {"currentReplicas": 1}
    for changed in (shown, {**shown, "status": status}, {**shown, "spec": {**shown["spec"], "maxReplicas": 5}}):
        scene.bench.show(HORIZONTAL_POD_AUTOSCALERS, changed)
        (enqueue,) = scene.autoscaling.schedule(KEY)
        found.append(enqueue.after)
    assert found == delays
