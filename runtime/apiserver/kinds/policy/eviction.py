"""Eviction (policy/v1), the request body of the subresource pods/eviction.

Source: kubernetes pkg/registry/core/pod/storage/eviction.go (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

RESOURCE = ResourceDefinition(group="policy", version="v1", plural="evictions", kind="Eviction")
