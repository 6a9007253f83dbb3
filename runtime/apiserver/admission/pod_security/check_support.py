"""Views of a pod and formatting of findings, shared by all checks.

Source: pod-security-admission policy/{helpers,visitor}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

Part = Mapping[str, Any]


class Pod(NamedTuple):
    """Pod or pod template to evaluate."""

    annotations: Mapping[str, str]
    spec: Part
    minor: int  # Kubernetes minor version whose rules apply: 36 for v1.36

    @property
    def is_windows(self) -> bool:
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_own_users(self) -> bool:
        return self.spec.get("hostUsers") is False

    @property
    def context(self) -> Part:
        return self.spec.get("securityContext") or {}

    def containers(self) -> Iterator[Part]:
        for field in ("initContainers", "containers", "ephemeralContainers"):
            yield from self.spec.get(field) or ()


class Finding(NamedTuple):
    """Violation of a level of the Pod Security Standards by a pod: the reason, and the containers and values."""

    reason: str  # short name of the violation, such as "hostPath volumes"
    detail: str  # the containers and values, as a phrase

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


Check = Callable[[Pod], Finding | None]


def context_of(container: Part) -> Part:
    return container.get("securityContext") or {}


def violating_containers(pod: Pod, violates: Callable[[Part], bool]) -> list[str]:
    """Return the names of the containers whose security context violates a check.

    violates: reports whether a security context violates it
    """
    return [container["name"] for container in pod.containers() if violates(context_of(container))]


def listed(items: Collection[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def plural(word: str, items: Collection[Any]) -> str:
    return word if len(items) == 1 else f"{word}s"


def named(word: str, items: Collection[str]) -> str:
    return f"{plural(word, items)} {listed(items)}"


def violating_parts(pod: Pod, violates: Callable[[Part], bool]) -> list[str]:
    """Return the parts of a pod whose security context violates a check, as phrases: 'pod', 'container "main"'.

    violates: reports whether a security context violates it
    """
    found = ["pod"] if violates(pod.context) else []
    bad = violating_containers(pod, violates)
    return [*found, named("container", bad)] if bad else found
