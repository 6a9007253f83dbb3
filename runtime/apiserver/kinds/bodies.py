"""Kinds that exist only as bodies of subresources: Eviction, Scale and TokenRequest."""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.authentication import token_request
from kcm.runtime.apiserver.kinds.autoscaling import scale
from kcm.runtime.apiserver.kinds.policy import eviction
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import GroupVersionKind

BODIES: dict[GroupVersionKind, ResourceDefinition] = {
    GroupVersionKind(definition.group, definition.version, definition.kind): definition
    for definition in (eviction.RESOURCE, scale.RESOURCE, token_request.RESOURCE)
}
