"""`kubectl why` against running clusters: the first cause of objects that are stuck in different ways."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Site
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import until

BIN = Path(__file__).parents[2] / "bin"


def container(image: str = "nginx:1", **more: object) -> dict[str, Any]:
    return {"name": "main", "image": image, **more}


def deployment(name: str, *, metadata: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, **(metadata or {})},
                "spec": {"containers": [container()], **spec},
            },
        },
    }


def named(api_version: str, kind: str, spec: dict[str, Any], *, name: str = "other") -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


ENDLESS = {"restartPolicy": "Never", "containers": [container("busybox", command=["sleep", "infinity"])]}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "absent",
}
BACKEND = {"service": {"name": "absent", "port": {"number": 80}}}
SELECTOR = {"selector": {"app": "absent"}, "ports": [{"port": 80}]}
LARGE = {"requests": {"cpu": "900"}}
UNREADY = {"annotations": {"hollow.kcm.dev/ready": "false"}}
STUCK: dict[str, tuple[dict[str, Any], str]] = {  # by "kind/name": the object, and the code of its first cause
    "deployment/image": (deployment("image", containers=[container("nginx:404")]), "image-pull"),
    "deployment/crashes": (deployment("crashes", containers=[container(command=["false"])]), "crash-loop"),
    "deployment/large": (deployment("large", containers=[container(resources=LARGE)]), "insufficient-resources"),
    "deployment/selector": (deployment("selector", nodeSelector={"disk": "ssd"}), "node-affinity"),
    "deployment/gated": (deployment("gated", schedulingGates=[{"name": "example.com/wait"}]), "scheduling-gates"),
    "deployment/unready": (deployment("unready", metadata=UNREADY), "readiness-probe"),
    "deployment/priority": (deployment("priority", priorityClassName="absent"), "priority-class-missing"),
    "job/other": (named("batch/v1", "Job", {"suspend": True, "template": {"spec": ENDLESS}}), "suspended"),
    "pvc/other": (named("v1", "PersistentVolumeClaim", CLAIM), "storage-class-missing"),
    "ingress/other": (named("networking.k8s.io/v1", "Ingress", {"defaultBackend": BACKEND}), "backend-missing"),
    "service/other": (named("v1", "Service", SELECTOR), "service-no-pods"),
}


def why(site: Site, namespace: str, *arguments: str) -> tuple[int, str, str]:
    """Run `kubectl why`, and return its exit code and output."""
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "KUBECONFIG": str(site.kubeconfig)}
    command = ["kubectl", "why", *arguments, f"--namespace={namespace}"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, cwd=site.kubeconfig.parent)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_first_cause_of_stuck_objects_is_right(site: Site, kubectl: Kubectl) -> None:
    kubectl.apply(*(obj for obj, _ in STUCK.values()), deployment("fine"))
    found: dict[str, str] = {}

    def are_right() -> bool:
        for name, (_, code) in STUCK.items():
            if found.get(name) != code:
                _, output, error = why(site, kubectl.namespace, name, "--output=json")
                causes = json.loads(output)["causes"] if output else [{"code": error}]
                found[name] = causes[0]["code"] if causes else "none"
        return found == {name: code for name, (_, code) in STUCK.items()}

    until(are_right, "the first causes are right", within=90.0, why=lambda: str(found))
    code, output, _ = why(site, kubectl.namespace, "deployment", "image")
    assert code == 1
    assert "[image-pull]" in output
    until(lambda: why(site, kubectl.namespace, "deploy/fine")[0] == 0, "nothing is wrong", within=30.0)
    assert why(site, kubectl.namespace, "deploy/absent")[0] == 1
    assert why(site, kubectl.namespace, "deploy")[0] == 2
