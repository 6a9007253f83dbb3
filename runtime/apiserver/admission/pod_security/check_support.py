"""What all checks look through a pod with, and how they say what they find.

Source: pod-security-admission policy/{helpers,visitor}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

Part = Mapping[str, Any]


class Pod(NamedTuple):
    """annotations, spec: of a pod or a template. minor: of the version 1.x whose rules hold."""

    annotations: Mapping[str, str]
    spec: Part
    minor: int

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
    """Why a pod is too much for a level."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


Check = Callable[[Pod], Finding | None]


def context_of(container: Part) -> Part:
    return container.get("securityContext") or {}


def names_of(pod: Pod, is_bad: Callable[[Part], bool]) -> list[str]:
    """Of containers whose security context is bad."""
    return [one["name"] for one in pod.containers() if is_bad(context_of(one))]


def listed(items: Collection[str]) -> str:
    return ", ".join(f'"{one}"' for one in items)


def plural(word: str, items: Collection[Any]) -> str:
    return word if len(items) == 1 else f"{word}s"


def named(word: str, items: Collection[str]) -> str:
    return f"{plural(word, items)} {listed(items)}"


def setters(pod: Pod, is_bad: Callable[[Part], bool]) -> list[str]:
    """The pod, and its containers, whose security context is bad."""
    found = ["pod"] if is_bad(pod.context) else []
    bad = names_of(pod, is_bad)
    return [*found, named("container", bad)] if bad else found
