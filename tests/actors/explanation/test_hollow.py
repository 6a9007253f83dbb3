"""Decisions of the hollow cluster in explanations: of its attacher, resizer, device driver, kubelet and scheduler."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kcm.actors.explanation.cause import Explanation
from kcm.protocols.resources import VOLUME_ATTACHMENTS
from tests.actors.explanation.scenario import Scene
from tests.actors.explanation.scenarios.storage import claim, user
from tests.actors.explanation.stage import Stage

HOLLOW = "hollow.kcm.dev"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Stage(attach=True, devices=True, nodes=1) as stage:
        scene = Scene(stage, "shop", random.Random(0))
        claim(scene)
        user(scene, "web")
        scene.merge("node", "hollow-node-0", {"metadata": {"annotations": {f"{HOLLOW}/devices": "gpu.example.com=2"}}})
        scene.run(10.0)
        scene.merge("pvc", "data", {"metadata": {"annotations": {f"{HOLLOW}/largest-size": "2Gi"}}})
        scene.merge("pvc", "data", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
        scene.run(10.0)
        yield scene


def reasons(found: Explanation, controller: str) -> str:
    return "; ".join(
        reason for report in found.controllers for reason in report.reasons if report.name == f"{controller}-controller"
    )


def test_decision_of_the_attacher_is_shown_with_a_volume_attachment(scene: Scene) -> None:
    (attachment,) = scene.cluster.list(VOLUME_ATTACHMENTS)
    found = scene.stage.why("volumeattachment", attachment["metadata"]["name"])
    assert reasons(found, "hollow-attacher") == "attaches it to node hollow-node-0"


def test_decision_of_the_resizer_is_shown_with_a_claim(scene: Scene) -> None:
    found = reasons(scene.stage.why("pvc", "data"), "hollow-resizer")
    assert "5Gi requested, at most 2Gi available" in found or "until less is requested" in found


def test_decision_of_the_device_driver_is_shown_with_a_node(scene: Scene) -> None:
    found = reasons(scene.stage.why("node", "hollow-node-0"), "hollow-devices")
    assert found == "publishes 2 devices of gpu.example.com in pool hollow-node-0"


def test_decision_of_the_scheduler_is_shown_with_a_pod(scene: Scene) -> None:
    assert reasons(scene.stage.why("pod", "web"), "hollow-scheduler") == "binds it to node hollow-node-0"
