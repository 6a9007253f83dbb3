"""PodGroupProtection: add the finalizer that keeps a PodGroup until no pod uses it.

Source: kubernetes plugin/pkg/admission/scheduling/podgroupprotection/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

FINALIZER = "scheduling.k8s.io/podgroup-protection"


def admit_create(definition: ResourceDefinition, obj: Object) -> None:
    """Add the protection finalizer to a new PodGroup, in place."""
    finalizers = obj["metadata"].get("finalizers") or []
    if definition.name == "podgroups.scheduling.k8s.io" and FINALIZER not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, FINALIZER]
