"""Binding, the body of pods/binding, and of bindings, where the pod is that of the body's name.

Source: kubernetes pkg/registry/core/pod/storage/storage.go, BindingREST (v1.36).
"""

from __future__ import annotations

from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

RESOURCE = ResourceDefinition(version="v1", plural="bindings", kind="Binding", verbs=("create",))
