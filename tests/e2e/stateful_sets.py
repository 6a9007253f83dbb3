"""StatefulSets as manifests, user actions on them, and their status."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.kubectl import Kubectl, Object, name_of, uid_of
from tests.e2e.programs import until

REVISIONS, SETS, CLAIMS = "apps/v1/controllerrevisions", "apps/v1/statefulsets", "persistentvolumeclaims"


def stateful_set(name: str, replicas: int, *, claims: tuple[str, ...] = (), **spec: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": claim}, "spec": storage} for claim in claims],
            **spec,
        },
    }


def change(kubectl: Kubectl, name: str, spec: Object) -> None:
    kubectl("patch", "statefulset", name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def set_image(kubectl: Kubectl, name: str, image: str) -> None:
    kubectl("set", "image", f"statefulset/{name}", f"main={image}")


def status(kubectl: Kubectl, name: str) -> Object:
    found: Object = kubectl.get(SETS, name).get("status", {})
    return found


def until_status(kubectl: Kubectl, name: str, **wanted: Any) -> None:
    """Wait for these counts in the status of the newest generation. A missing count is 0."""

    def is_so() -> bool:
        obj = kubectl.get(SETS, name)
        status = obj.get("status", {})
        observed = status.get("observedGeneration") == obj["metadata"]["generation"]
        return observed and all(status.get(field, 0) == value for field, value in wanted.items())

    until(is_so, f"the status of {name} says {wanted}", why=lambda: f"{status(kubectl, name)}\n{kubectl.state()}")


def replace_pod(kubectl: Kubectl, name: str) -> None:
    """Delete a pod and wait for the new pod of this name, since kubectl's own wait may not notice it."""

    def uid() -> str | None:
        return next((uid_of(pod) for pod in kubectl.items("pods") if name_of(pod) == name), None)

    before = uid()
    kubectl("delete", "pod", name, "--wait=false")
    until(lambda: uid() not in (before, None), f"there is another {name}", why=kubectl.state)


def until_ready(kubectl: Kubectl, name: str, replicas: int) -> None:
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), replicas)
    until_status(kubectl, name, **counts)


def until_updated(kubectl: Kubectl, name: str, replicas: int) -> None:
    """Wait until all pods have the newest revision."""
    until_status(kubectl, name, readyReplicas=replicas, updatedReplicas=replicas, replicas=replicas)
    until(
        lambda: len({status(kubectl, name)[field] for field in ("currentRevision", "updateRevision")}) == 1,
        "the update is complete",
        why=kubectl.state,
    )


def revisions(kubectl: Kubectl) -> list[tuple[str, int, str, str]]:
    """Return names, numbers, hashes and data of the revisions, which are the same in each run."""
    return sorted(
        (
            revision["metadata"]["name"],
            revision["revision"],
            revision["metadata"]["labels"]["controller.kubernetes.io/hash"],
            json.dumps(revision["data"]),
        )
        for revision in kubectl.items(REVISIONS)
    )
