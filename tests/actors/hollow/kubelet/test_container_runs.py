"""Default behaviour of hollow containers: pods of Jobs and Helm hooks end, all others run forever."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.hollow.behaviour import has_annotations
from kcm.actors.hollow.kubelet.container_runs import (
    DONE_AT_ONCE,
    DONE_SOON,
    FOR_EVER,
    Script,
    runs_to_completion,
    scripts_of,
)
from kcm.protocols.objects import Object

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "once", "uid": "uid-1", "controller": True}


def pod(*owners: Object, policy: str = "Never", **annotations: str) -> Object:
    meta = {"name": "a", "ownerReferences": list(owners), "annotations": annotations}
    return {"metadata": meta, "spec": {"restartPolicy": policy, "containers": []}}


def script(pod: Object, *, init: bool = False, restarts: int = 0, **container: Any) -> Script:
    container = {"name": "c", "image": "unknown/thing", **container}
    return scripts_of(pod, container, has_annotations=has_annotations(pod), init=init)(restarts)


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_job_pod_with_an_unknown_program_ends_after_a_second(policy: str) -> None:
    assert script(pod(JOB, policy=policy)) == DONE_SOON == Script(run_seconds=1.0, exit_code=0)
    assert script(pod(JOB, policy=policy), command=["/usr/bin/migrate", "--all"]) == DONE_SOON
    assert script(pod(JOB, policy=policy), args=["--all"], restarts=2) == DONE_SOON


@pytest.mark.parametrize(
    ("owners", "policy", "annotations", "expected"),
    [
        ([JOB], "Never", {}, True),
        ([{**JOB, "apiVersion": "batch/v1beta1"}], "OnFailure", {}, True),
        ([{**JOB, "controller": False}], "Never", {}, False),
        ([{**JOB, "apiVersion": "batch.volcano.sh/v1alpha1"}], "Never", {}, False),
        ([{**JOB, "apiVersion": "apps/v1", "kind": "ReplicaSet"}], "Always", {}, False),
        ([], "Never", {}, False),
        ([], "OnFailure", {}, False),
        ([], "Never", {"helm.sh/hook": "test"}, True),
        ([], "Always", {"helm.sh/hook": "test"}, False),
    ],
)
def test_pods_of_jobs_and_helm_hooks_run_to_completion(
    owners: list[Object], policy: str, annotations: dict[str, str], expected: bool
) -> None:
    assert runs_to_completion(pod(*owners, policy=policy, **annotations)) is expected


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"command": ["sleep", "7"]}, Script(run_seconds=7.0)),
        ({"command": ["sleep", "infinity"]}, Script(run_seconds=None)),
        ({"command": ["sh", "-c", "exit 3"]}, Script(run_seconds=0.0, exit_code=3)),
        ({"image": "registry.k8s.io/pause:3.10"}, FOR_EVER),
        ({"image": "registry.k8s.io/e2e-test-images/agnhost:2.53", "args": ["netexec"]}, FOR_EVER),
    ],
)
def test_job_pod_runs_according_to_command_line_or_image(container: dict[str, Any], expected: Script) -> None:
    assert script(pod(JOB), **container) == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"hollow.kcm.dev/run-seconds": "30"}, Script(run_seconds=30.0)),
        ({"hollow.kcm.dev/exit-code": "1"}, Script(run_seconds=0.0, exit_code=1)),
        ({"hollow.kcm.dev/ready": "false"}, Script(run_seconds=1.0, ready=False)),
        ({"c.hollow.kcm.dev/run-seconds": "5"}, Script(run_seconds=5.0)),
    ],
)
def test_annotations_of_a_job_pod_precede_the_default(annotations: dict[str, str], expected: Script) -> None:
    assert script(pod(JOB, **annotations)) == expected


def test_sidecars_of_a_job_pod_run_on_and_other_init_containers_end_at_once() -> None:
    assert script(pod(JOB), init=True, restartPolicy="Always") == FOR_EVER
    assert script(pod(JOB), init=True) == DONE_AT_ONCE


def test_init_container_whose_readiness_alone_is_annotated_still_ends() -> None:
    annotated = pod(**{"c.hollow.kcm.dev/start-seconds": "3"})
    assert script(annotated, init=True) == Script(run_seconds=0.0, start_seconds=3.0)


def test_bare_pod_with_an_unknown_program_runs_on_whatever_its_restart_policy() -> None:
    for policy in ("Always", "OnFailure", "Never"):
        assert script(pod(policy=policy)) == FOR_EVER
