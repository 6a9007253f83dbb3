"""Explanations in a simulated cluster; trial.py has the scored trial."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcm.protocols.objects import Object
from tests.actors.explanation.stage import Stage


def deployment(name: str, *, replicas: int = 1, image: str = "nginx:1", **spec: object) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}], **spec},
            },
        },
    }


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        stage.apply(deployment("fine"))
        stage.apply(deployment("image", image="nginx:404"))
        stage.apply(deployment("selector", nodeSelector={"disk": "ssd"}))
        stage.run(30.0)
        yield stage


def test_healthy_object_has_no_cause_and_its_controllers_are_shown(stage: Stage) -> None:
    found = stage.why("deploy", "fine")
    assert (found.verdict, found.causes, found.notes) == ("nothing is wrong", (), ())
    (report,) = [report for report in found.controllers if report.name == "deployment-controller"]
    assert (report.error, report.failures) == ("", 0)
    assert report.decided is not None


def test_cause_of_a_pod_is_the_root_of_its_deployment(stage: Stage) -> None:
    found = stage.why("deployment", "image")
    assert found.verdict == "stuck"
    assert found.causes[0].code == "image-pull"
    assert found.causes[0].about.startswith("pod shop/image-")
    assert found.causes[0].commands[0].startswith("kubectl describe pod image-")


def pause_with_another_image(stage: Stage, name: str) -> None:
    template = deployment(name, image="nginx:2")["spec"]["template"]
    stage.merge("Deployment", f"shop/{name}", {"spec": {"template": template, "paused": True}})
    stage.run(90.0)


def test_object_whose_configuration_makes_it_wait_is_on_hold(stage: Stage) -> None:
    stage.apply(deployment("paused"))
    stage.run(10.0)
    pause_with_another_image(stage, "paused")
    found = stage.why("deployment", "paused")
    assert (found.verdict, [cause.code for cause in found.causes]) == ("on hold", ["rollout-paused"])


def test_object_that_also_fails_is_not_on_hold(stage: Stage) -> None:
    stage.apply(deployment("paused-and-broken", image="nginx:404"))
    stage.run(10.0)
    pause_with_another_image(stage, "paused-and-broken")
    found = stage.why("deployment", "paused-and-broken")
    assert found.verdict == "stuck"
    assert {"rollout-paused", "image-pull"} <= {cause.code for cause in found.causes}


def test_object_alone_explains_without_a_manager(stage: Stage) -> None:
    found = stage.why("deployments.apps", "selector", with_manager=False)
    assert (found.causes[0].code, found.controllers) == ("node-affinity", ())


def test_fresh_object_is_under_way(stage: Stage) -> None:
    stage.apply(deployment("fresh"))
    assert stage.why("deployment", "fresh").verdict == "under way"


def test_missing_object_is_not_found(stage: Stage) -> None:
    found = stage.why("pod", "absent")
    assert (found.verdict, found.summary) == ("not found", "pod shop/absent does not exist")
