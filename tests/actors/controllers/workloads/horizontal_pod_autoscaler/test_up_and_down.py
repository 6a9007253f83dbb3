"""One evaluation of an autoscaler whose target is too small or too large.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go (TestScaleUp… and TestScaleDown…
except the ones about zero, TestNoBackoffUpscale…, TestUpscaleCap…, TestMinReplicas… and the like).
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler import metrics as of
from kcm.protocols.messages.commands import Update
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS, PODS
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.cases import (
    ODD,
    Case,
    about_other,
    about_other_each,
    cpu,
    each,
    expected,
    looked,
    outside,
    outside_each,
    scene_of,
)
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scaled import AT_ONCE
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scene import KEY

EXTERNAL = "external.metrics.k8s.io"


def up_by(percent: int, window: int = 0, period: int = 60) -> Object:
    """Return a behavior with a rule for scaling up; that for scaling down has the server's defaults."""
    policies = [{"type": "Percent", "value": percent, "periodSeconds": period}]
    up = {"stabilizationWindowSeconds": window, "policies": policies}
    return {"scaleUp": up, "scaleDown": {"policies": AT_ONCE["policies"]}}


UP = [
    Case("a ReplicationController", cpu(30), (300, 500, 700), size=3, end=5, kind="ReplicationController"),
    Case("a Deployment", cpu(30), (300, 500, 700), size=3, end=5, kind="Deployment", percent=50),
    Case("a ReplicaSet", cpu(30), (300, 500, 700), size=3, end=5, kind="ReplicaSet", percent=50),
    Case("one container", cpu(30, "a"), (300, 500, 700), size=3, end=5),
    Case("one pod", cpu(50), (200,), requests=(200,), size=1, end=2, bounds=(1, 5), percent=100),
    Case("one pod unready", cpu(30), (300, 500, 700), pods="urr", size=3, end=4, percent=60),
    Case("one pod starts", cpu(30), (300, 500, 700), pods="hrr", size=3, end=4, percent=60),
    Case("failed pods", cpu(30), (500, 700), pods="rrff", size=2, end=4, percent=60),
    Case("deleted pods", cpu(30), (500, 700), pods="rrdd", size=2, end=4, percent=60),
    Case("pods", each("15"), (20_000, 10_000, 30_000), size=3, end=4),
    Case("pods, at most five", each("15"), (20_000, 10_000, 30_000), end=4, bounds=(1, 5)),
    Case("pods, one starts", each("15"), (50_000, 10_000, 30_000), pods="rrH", size=3, end=6),
    Case(
        "pods, two start unready",
        each("15"),
        (50_000, 15_000, 30_000),
        pods="HrH",
        size=3,
        end=6,
        but="TooManyReplicas",
    ),
    Case("pods, two start", each("15"), (50_000, 15_000, 30_000), pods="hrh", size=3, end=6, but="TooManyReplicas"),
    Case("an object", about_other("15"), (20_000,), size=3, end=4),
    Case("an object, for each pod", about_other_each("10"), (40_000,), size=3, end=4),
    Case("external", outside("6666m"), (8600,), size=3, end=4),
    Case("external, for each pod", outside_each("2222m"), (8600,), size=3, end=4),
    Case(
        "of two metrics the larger",
        (cpu(10), each("15")),
        (20_000, 10_000, 30_000),
        size=3,
        end=5,
        bounds=(1, 5),
        but="TooManyReplicas",
    ),
    Case(
        "one metric of no known type",
        (cpu(30), ODD),
        (300, 400, 500),
        size=3,
        end=4,
        percent=40,
        warned="InvalidMetricSourceType",
        fault="internal",
        computed=(("scale_up", "none", "Resource"), ("none", "spec", "CheddarCheese")),
    ),
    Case(
        "one metric that fails",
        (cpu(30), outside("100m")),
        (300, 400, 500),
        size=3,
        end=4,
        percent=40,
        broken=(EXTERNAL,),
        warned="FailedGetExternalMetric",
        fault="internal",
        computed=(("scale_up", "none", "Resource"), ("none", "internal", "External")),
    ),
    Case(
        "the most",
        cpu(90),
        (8000, 9500, 1000),
        requests=(900, 1000, 1100),
        size=3,
        end=5,
        bounds=(2, 5),
        but="TooManyReplicas",
    ),
    Case(
        "samples of pods that are gone",
        cpu(100),
        (4000, 9500, 3000, 7000, 3200, 2000),
        size=4,
        end=6,
        percent=587,
        but="TooManyReplicas",
    ),
    Case(
        "as fast as it may",
        cpu(10),
        (100, 200, 300),
        requests=(100,),
        size=3,
        end=24,
        bounds=(1, 100),
        behavior=up_by(700),
        but="ScaleUpLimit",
    ),
    Case(
        "as fast as it may, and the most",
        cpu(10),
        (100, 200, 300),
        requests=(100,),
        size=3,
        end=20,
        bounds=(1, 20),
        behavior=up_by(700),
        but="TooManyReplicas",
    ),
]


@pytest.mark.parametrize("case", UP, ids=str)
def test_target_is_scaled_up(case: Case) -> None:
    assert looked(case) == expected(case)


FIVE = (100, 300, 500, 250, 250)
DOWN = [
    Case("of a ReplicationController", cpu(50), FIVE, size=5, end=3, percent=28, kind="ReplicationController"),
    Case("one container", cpu(50, "b"), FIVE, size=5, end=3),
    Case("rules for up alone", cpu(50), FIVE, size=5, end=3, percent=28, behavior=up_by(100, 30, 15)),
    Case("pods", each("20"), (12_000,) * 5, size=5, end=3),
    Case("an object", about_other("20"), (12_000,), size=5, end=3),
    Case("an object, for each pod", about_other_each("20"), (60_000,), size=5, end=3),
    Case("external", outside("14400m"), (8600,), size=5, end=3),
    Case("external, for each pod", outside_each("3"), (8600,), size=5, end=3),
    Case("unready pods", cpu(50), FIVE, pods="rrruu", size=5, end=2, percent=30),
    Case("pods that start", cpu(50), FIVE, pods="rrrhh", size=5, end=2, percent=30),
    Case("failed pods", cpu(50), FIVE, pods="rrrrrff", size=5, end=3, percent=28),
    Case("deleted pods", cpu(50), FIVE, pods="rrrrrdd", size=5, end=3, percent=28),
    Case("no sample of two pods", cpu(100), (400, 95), size=4, end=3),
    Case("three pods are not there", cpu(50), (200,), requests=(200,), pods="r", size=4, end=2, bounds=(1, 5)),
    Case(
        "the least",
        cpu(90),
        (10, 95, 10),
        requests=(900, 1000, 1100),
        size=3,
        end=2,
        bounds=(2, 5),
        but="TooFewReplicas",
    ),
    Case("idle", cpu(90), (0, 0, 0), requests=(900, 1000, 1100), size=3, end=2, bounds=(2, 5), but="TooFewReplicas"),
    Case("idle, to zero", cpu(90), (0, 0, 0), requests=(900, 1000, 1100), size=3, end=0, bounds=(0, 5)),
    Case(
        "just beyond the tolerance",
        cpu(56),
        (150,) * 10,
        requests=(400, 200, 310, 290, 302, 298, 301, 299, 300, 300),
        size=10,
        end=9,
        bounds=(0, 1000),
        percent=50,
    ),
]


@pytest.mark.parametrize("case", DOWN, ids=str)
def test_target_is_scaled_down_after_the_stabilization_window(case: Case) -> None:
    """Recommendations of the last five minutes are considered; replicas above the maximum are removed at once."""
    case = replace(case, known=True)
    assert looked(case) == expected(case)


def test_each_of_many_autoscalers_scales_its_own_target() -> None:
    numbers = range(20)
    scene = scene_of(Case("", cpu(10), (500,) * len(numbers), pods="r" * len(numbers), bounds=(1, 10)))
    autoscalers, pods = scene.bench.tables[HORIZONTAL_POD_AUTOSCALERS], scene.bench.tables[PODS]
    shown, listed = autoscalers.get(KEY), [pods.object_of(entry) for entry in pods.entries("default")]
    assert shown is not None
    for number, found in zip(numbers, listed, strict=True):
        meta = {"name": f"web-{number}", "namespace": "default", "uid": str(number)}
        scene.bench.show(HORIZONTAL_POD_AUTOSCALERS, {**shown, "metadata": meta})
        scene.bench.show(PODS, {**found, "metadata": {**found["metadata"], "labels": {"app": f"web-{number}"}}})
    for number in numbers:
        scene.scale = {"spec": {"replicas": 1}, "status": {"replicas": 1, "selector": f"app=web-{number}"}}
        (written,) = [
            update for update in scene.look(f"default/web-{number}").of(Update) if update.subresource == "scale"
        ]
        assert decode_object(written.body)["spec"]["replicas"] == 4  # limited to twice the size; 5 are desired
    assert scene.shown(of.RECONCILIATIONS) == {("scale_up", "none"): len(numbers)}
