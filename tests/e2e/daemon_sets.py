"""A DaemonSet as a manifest, and what is to be seen of it."""

from __future__ import annotations

from typing import Any

from tests.e2e.kubectl import Kubectl, Object

NAME = "agent"


def daemon_set(image: str, *, strategy: Object | None = None, **pod: Any) -> Object:
    labels = {"app": NAME}
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": image}], **pod},
    }
    spec: Object = {"selector": {"matchLabels": labels}, "template": template}
    if strategy is not None:
        spec["updateStrategy"] = strategy
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": NAME}, "spec": spec}


def pods(kubectl: Kubectl) -> list[Object]:
    return [pod for pod in kubectl.items("pods") if "deletionTimestamp" not in pod["metadata"]]


def nodes_of(kubectl: Kubectl) -> list[str]:
    """Of each pod that runs."""
    return [pod["spec"].get("nodeName", "") for pod in pods(kubectl)]


def image_of(kubectl: Kubectl) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in pods(kubectl)}


def numbers(kubectl: Kubectl) -> dict[str, int]:
    """Of the status."""
    [found] = kubectl.items("apps/v1/daemonsets")
    return {name: value for name, value in (found.get("status") or {}).items() if isinstance(value, int)}


def revisions(kubectl: Kubectl) -> dict[str, int]:
    """The number of each, by the image of its template."""
    found = kubectl.items("apps/v1/controllerrevisions")
    return {one["data"]["spec"]["template"]["spec"]["containers"][0]["image"]: one["revision"] for one in found}
