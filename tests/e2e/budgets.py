"""Disruption budgets as manifests, their status, and evictions as kubectl sends them."""

from __future__ import annotations

import json
import subprocess

from tests.e2e.kubectl import Kubectl, Object


def budget(name: str, app: str = "", **spec: object) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app or name}}, **spec},
    }


def evict(kubectl: Kubectl, name: str, **more: object) -> subprocess.CompletedProcess[str]:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}
    path = f"{kubectl.path('pods', name)}/eviction"
    return kubectl.run("create", "--raw", path, "-f", "-", given=json.dumps(eviction))


def allowed(kubectl: Kubectl, name: str) -> tuple[int, int, int, int]:
    """Return (allowed, healthy, desired, expected) of a budget whose status is current, or negative numbers."""
    found = kubectl.get("policy/v1/poddisruptionbudgets", name)
    status = found["status"]
    if status.get("observedGeneration") != found["metadata"]["generation"]:
        return (-1, -1, -1, -1)
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return tuple(status[name] for name in names)  # type: ignore[return-value]
