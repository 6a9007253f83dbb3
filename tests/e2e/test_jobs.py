"""Jobs of every kind end, on our cluster and on a real kube-apiserver; also those of unknown programs."""

from __future__ import annotations

import pytest

from tests.e2e.jobs import scene
from tests.e2e.kubectl import Kubectl

pytestmark = pytest.mark.timeout(300)


def test_every_job_comes_to_its_end(kubectl: Kubectl) -> None:
    scene(kubectl)


def test_job_of_an_unknown_program_completes(kubectl: Kubectl) -> None:
    kubectl("create", "job", "unknown", "--image=unknown/thing")
    kubectl("create", "job", "migration", "--image=registry.example/shop:1", "--", "/usr/bin/migrate", "--all")
    kubectl("wait", "job/unknown", "job/migration", "--for=condition=Complete", "--timeout=60s")


def test_helm_hook_pod_of_an_unknown_program_succeeds_and_other_bare_pods_run_on(kubectl: Kubectl) -> None:
    kubectl("run", "bare", "--image=unknown/thing", "--restart=Never")
    kubectl("run", "hook", "--image=unknown/thing", "--restart=Never", "--annotations=helm.sh/hook=test")
    kubectl("wait", "pod/hook", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    kubectl("wait", "pod/bare", "--for=condition=Ready", "--timeout=60s")


def test_job_fails_or_keeps_running_as_annotated(kubectl: Kubectl) -> None:
    for name, annotation in (("fails", "exit-code=1"), ("lasts", "run-seconds=1000")):
        template = {
            "metadata": {"annotations": dict([f"hollow.kcm.dev/{annotation}".split("=")])},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "unknown/thing"}]},
        }
        spec = {"template": template, "backoffLimit": 0}
        kubectl.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
    kubectl("wait", "job/fails", "--for=condition=Failed", "--timeout=60s")
    assert kubectl.get("batch/v1/jobs", "lasts")["status"]["active"] == 1
