"""One evaluation of an autoscaler: reports of rejected writes, and metrics.

Source: kubernetes v1.36 pkg/controller/podautoscaler/horizontal.go, monitor/monitor.go.
"""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler import metrics as of
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Conflict, Forbidden, NotFound, Refused, ServerFailure
from kcm.protocols.objects import Object
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import external
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scene import QUEUE, Scene, autoscaler

WHY = "external metric queue(nil) above target"
STATUS = b'{"kind": "Status"}'


def test_scaling_up_is_counted() -> None:
    scene = Scene(autoscaler())
    assert scene.look().events == [("Normal", "SuccessfulRescale", f"New size: 3; reason: {WHY}")]
    assert scene.shown(of.RECONCILIATIONS) == {("scale_up", "none"): 1}
    assert scene.shown(of.COMPUTATIONS) == {("scale_up", "none", "External"): 1}
    assert scene.shown(of.DESIRED_REPLICAS) == {("default", "web"): 3}
    assert scene.shown(of.AUTOSCALERS) == {(): 1}


@pytest.mark.parametrize(
    ("spec", "reconciled", "computed"),
    [
        ({"metrics": [{"type": "Odd"}]}, ("none", "internal"), ("none", "spec", "Odd")),
        ({"metrics": [external({"value": "0"})]}, ("none", "internal"), ("none", "internal", "External")),
        ({"scaleTargetRef": {"apiVersion": "a/b/c", "kind": "D"}}, ("none", "spec"), None),
        ({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Odd"}}, ("none", "internal"), None),
        ({"metrics": [{"type": "Odd"}, QUEUE]}, ("scale_up", "internal"), ("none", "spec", "Odd")),
    ],
)
def test_evaluations_are_counted_by_cause_of_error(
    spec: Object, reconciled: tuple[str, str], computed: tuple[str, str, str] | None
) -> None:
    scene = Scene(autoscaler(**spec))
    scene.look()
    assert scene.shown(of.RECONCILIATIONS) == {reconciled: 1}
    assert computed is None or scene.shown(of.COMPUTATIONS)[computed] == 1


def test_forbidden_scale_update_is_reported() -> None:
    scene = Scene(autoscaler())
    scene.refusals["scale"] = Forbidden("not you", STATUS)
    text = f"New size: 3; reason: {WHY}; error: not you"
    assert scene.look().events == [("Warning", "FailedRescale", text)]
    message = "the HPA controller was unable to update the target scale: not you"
    assert scene.condition("AbleToScale") == ("False", "FailedUpdateScale", message)
    assert (scene.status["currentReplicas"], scene.status["desiredReplicas"]) == (1, 0)
    assert scene.status["currentMetrics"][0]["external"]["current"] == {"averageValue": "30"}
    assert "lastScaleTime" not in scene.status
    assert scene.shown(of.RECONCILIATIONS) == {("none", "internal"): 1}


@pytest.mark.parametrize("outcome", [Conflict("changed", STATUS), ServerFailure("broken", STATUS)])
def test_failed_status_write_records_an_event(outcome: Conflict | ServerFailure) -> None:
    scene = Scene(autoscaler())
    scene.refusals["status"] = outcome
    driven = scene.look()
    assert [reason for _, reason, _ in driven.events] == ["SuccessfulRescale", "FailedUpdateStatus"]
    assert driven.events[-1][2] == outcome.message
    assert driven.result is not None  # requeued after a period
    assert scene.shown(of.RECONCILIATIONS) == {("scale_up", "internal"): 1}


def test_evaluation_succeeds_if_the_autoscaler_is_deleted_meanwhile() -> None:
    scene = Scene(autoscaler())
    scene.refusals["status"] = NotFound()
    assert [reason for _, reason, _ in scene.look().events] == ["SuccessfulRescale"]


def test_refused_update_records_no_event() -> None:
    scene = Scene(autoscaler())
    scene.refusals["scale"] = Refused("fenced")
    assert scene.look(raises=CommandError).events == []
