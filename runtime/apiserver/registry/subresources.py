"""The verbs of each subresource and the kind of its body, for discovery, OpenAPI and field validation.

A subresource is served where a ResourceDefinition names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str


class Subresource(NamedTuple):
    """kind: of its body; None for the kind of the resource it belongs to."""

    verbs: tuple[str, ...]
    kind: GroupVersionKind | None = None


_WHOLE = Subresource(("get", "patch", "update"))

SUBRESOURCES: Mapping[str, Subresource] = {
    "status": _WHOLE,
    "resize": _WHOLE,
    "ephemeralcontainers": _WHOLE,
    "approval": _WHOLE,
    "scale": Subresource(("get", "patch", "update"), GroupVersionKind("autoscaling", "v1", "Scale")),
    "finalize": Subresource(("update",)),
    "log": Subresource(("get",)),
    "binding": Subresource(("create",), GroupVersionKind("", "v1", "Binding")),
    "eviction": Subresource(("create",), GroupVersionKind("policy", "v1", "Eviction")),
    "token": Subresource(("create",), GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")),
}


def subresource_of(name: str) -> Subresource:
    return SUBRESOURCES.get(name, _WHOLE)
