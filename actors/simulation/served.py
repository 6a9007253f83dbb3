"""Built-in kinds that a simulated API server serves: all that a controller or a trial uses.

Unused kinds are excluded because each served kind costs every simulated cluster one informer of the garbage collector
and one discovery document. Remove a kind from _GROUPS or _KINDS when a controller begins to watch it.
"""

from __future__ import annotations

from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

# API groups and kinds that are not served.
_GROUPS = ("apiregistration.k8s.io", "flowcontrol.apiserver.k8s.io", "node.k8s.io")
_KINDS = (
    "bindings",
    "componentstatuses",
    "csistoragecapacities.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "ingressclasses.networking.k8s.io",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
)

SERVED: tuple[ResourceDefinition, ...] = tuple(
    kind
    for kind in BUILT_IN
    if kind.group not in _GROUPS and kind.name not in _KINDS and (kind.group, kind.version) != ("autoscaling", "v1")
)
