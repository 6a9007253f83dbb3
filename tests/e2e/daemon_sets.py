"""DaemonSets as manifests, and their pods and revisions."""

from __future__ import annotations

from typing import Any

from tests.e2e.kubectl import Kubectl, Object

NAME = "agent"
SETS, REVISIONS = "apps/v1/daemonsets", "apps/v1/controllerrevisions"


def daemon_set(
    image: str, *, name: str = NAME, strategy: Object | None = None, min_ready: int = 0, **pod: Any
) -> Object:
    """Return a DaemonSet. pod: more fields of its pod template."""
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": image}], **pod},
    }
    spec: Object = {"selector": {"matchLabels": labels}, "template": template, "minReadySeconds": min_ready}
    if strategy is not None:
        spec["updateStrategy"] = strategy
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name}, "spec": spec}


def pods_of(kubectl: Kubectl, name: str = NAME, *, going: bool = False) -> list[Object]:
    """Return its pods. going: include pods that are being deleted."""
    found = kubectl.items("pods", f"app={name}")
    return [pod for pod in found if going or "deletionTimestamp" not in pod["metadata"]]


def nodes_of(kubectl: Kubectl) -> list[str]:
    """Return the node of each pod."""
    return [pod["spec"].get("nodeName", "") for pod in pods_of(kubectl)]


def image_of(kubectl: Kubectl) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in pods_of(kubectl)}


def numbers(kubectl: Kubectl) -> dict[str, int]:
    """Return the counts in the status."""
    [found] = kubectl.items(SETS)
    return {name: value for name, value in (found.get("status") or {}).items() if isinstance(value, int)}


def revisions(kubectl: Kubectl) -> dict[str, int]:
    """Return the revision numbers by the image of the template."""
    found = kubectl.items(REVISIONS)
    return {
        revision["data"]["spec"]["template"]["spec"]["containers"][0]["image"]: revision["revision"]
        for revision in found
    }
