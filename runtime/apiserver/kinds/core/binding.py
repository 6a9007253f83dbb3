"""Binding (core/v1), the request body that assigns a pod to a node.

Clients create it at the subresource pods/binding, or at the resource bindings, where metadata.name names the pod.

Source: kubernetes pkg/registry/core/pod/storage/storage.go, BindingREST (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

RESOURCE = ResourceDefinition(version="v1", plural="bindings", kind="Binding", verbs=("create",))
