"""Verbs and kind of the body of each subresource, for discovery, OpenAPI and field validation.

A subresource is served by the resources whose ResourceDefinition names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class GroupVersionKind(NamedTuple):
    group: str
    version: str
    kind: str


class Subresource(NamedTuple):
    """Verbs of a subresource, and the kind of its body.

    kind: None if the body is the object itself
    """

    verbs: tuple[str, ...]
    kind: GroupVersionKind | None = None


_WHOLE = Subresource(("get", "patch", "update"))


def _stream(kind: str) -> Subresource:
    return Subresource(("create", "get"), GroupVersionKind("", "v1", kind))


def _proxy(kind: str) -> Subresource:
    return Subresource(("create", "delete", "get", "patch", "update"), GroupVersionKind("", "v1", kind))


SUBRESOURCES: Mapping[str, Subresource] = {
    "status": _WHOLE,
    "resize": _WHOLE,
    "ephemeralcontainers": _WHOLE,
    "approval": _WHOLE,
    "scale": Subresource(("get", "patch", "update"), GroupVersionKind("autoscaling", "v1", "Scale")),
    "finalize": Subresource(("update",)),
    "binding": Subresource(("create",), GroupVersionKind("", "v1", "Binding")),
    "eviction": Subresource(("create",), GroupVersionKind("policy", "v1", "Eviction")),
    "token": Subresource(("create",), GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest")),
}

# Subresources that upstream proxies to kubelets and pods, by resource. Discovery contains them; requests are refused,
# because no containers run here, but those with a kind pass admission first.
OF_RUNNING_CONTAINERS: Mapping[str, Mapping[str, Subresource]] = {
    "pods": {
        "attach": _stream("PodAttachOptions"),
        "exec": _stream("PodExecOptions"),
        "log": Subresource(("get",)),
        "portforward": _stream("PodPortForwardOptions"),
        "proxy": _proxy("PodProxyOptions"),
    },
    "nodes": {"proxy": _proxy("NodeProxyOptions")},
    "services": {"proxy": _proxy("ServiceProxyOptions")},
}


def subresource_of(name: str) -> Subresource:
    return SUBRESOURCES.get(name, _WHOLE)
