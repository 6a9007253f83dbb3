"""The built-in resources: one row each."""

from __future__ import annotations

from runtime.embedded.registry import ResourceDefinition

BUILT_IN: tuple[ResourceDefinition, ...] = (
    ResourceDefinition(
        plural="namespaces",
        kind="Namespace",
        namespaced=False,
        short_names=("ns",),
        subresources=("status", "finalize"),
    ),
    ResourceDefinition(
        plural="pods",
        kind="Pod",
        short_names=("po",),
        categories=("all",),
        subresources=("status", "binding", "eviction"),
    ),
)
