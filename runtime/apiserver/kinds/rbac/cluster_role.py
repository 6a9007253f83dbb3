"""ClusterRoles.

Source: kubernetes pkg/registry/rbac/clusterrole/strategy.go (v1.36).
"""

from __future__ import annotations

from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import Strategy

RESOURCE = ResourceDefinition(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="clusterroles",
    kind="ClusterRole",
    namespaced=False,
    strategy=Strategy(
        allow_create_on_update=True,
    ),
)
