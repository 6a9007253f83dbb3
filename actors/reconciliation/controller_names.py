"""The controllers of kube-controller-manager by name, so that every command line of theirs is understood.

Source: kubernetes v1.36 cmd/kube-controller-manager/names/controller_names.go and app/*.go; the older aliases are those
of releases 1.5 to 1.11.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerName:
    """canonical: what logs and health checks say. aliases: what --controllers takes as well."""

    canonical: str
    aliases: tuple[str, ...] = ()
    on_by_default: bool = True


UPSTREAM: tuple[ControllerName, ...] = (
    ControllerName("serviceaccount-token-controller", ("serviceaccount-token",)),
    ControllerName("endpoints-controller", ("endpoint",)),
    ControllerName("endpointslice-controller", ("endpointslice",)),
    ControllerName("endpointslice-mirroring-controller", ("endpointslicemirroring",)),
    ControllerName("replicationcontroller-controller", ("replicationcontroller", "replication")),
    ControllerName("pod-garbage-collector-controller", ("podgc",)),
    ControllerName("resourcequota-controller", ("resourcequota",)),
    ControllerName("namespace-controller", ("namespace",)),
    ControllerName("serviceaccount-controller", ("serviceaccount",)),
    ControllerName("garbage-collector-controller", ("garbagecollector",)),
    ControllerName("daemonset-controller", ("daemonset",)),
    ControllerName("job-controller", ("job",)),
    ControllerName("deployment-controller", ("deployment",)),
    ControllerName("replicaset-controller", ("replicaset",)),
    ControllerName("horizontal-pod-autoscaler-controller", ("horizontalpodautoscaling",)),
    ControllerName("disruption-controller", ("disruption",)),
    ControllerName("statefulset-controller", ("statefulset",)),
    ControllerName("cronjob-controller", ("cronjob",)),
    ControllerName("certificatesigningrequest-signing-controller", ("csrsigning",)),
    ControllerName("certificatesigningrequest-approving-controller", ("csrapproving",)),
    ControllerName("certificatesigningrequest-cleaner-controller", ("csrcleaner",)),
    ControllerName("podcertificaterequest-cleaner-controller"),
    ControllerName("ttl-controller", ("ttl",)),
    ControllerName("bootstrap-signer-controller", ("bootstrapsigner",), on_by_default=False),
    ControllerName("token-cleaner-controller", ("tokencleaner",), on_by_default=False),
    ControllerName("node-ipam-controller", ("nodeipam",)),
    ControllerName("node-lifecycle-controller", ("nodelifecycle", "node")),
    ControllerName("taint-eviction-controller"),
    ControllerName("device-taint-eviction-controller"),
    ControllerName("service-lb-controller", ("service",)),
    ControllerName("node-route-controller", ("route",)),
    ControllerName("cloud-node-lifecycle-controller", ("cloud-node-lifecycle",)),
    ControllerName("persistentvolume-binder-controller", ("persistentvolume-binder",)),
    ControllerName("persistentvolume-attach-detach-controller", ("attachdetach",)),
    ControllerName("persistentvolume-expander-controller", ("persistentvolume-expander",)),
    ControllerName("clusterrole-aggregation-controller", ("clusterrole-aggregation",)),
    ControllerName("persistentvolumeclaim-protection-controller", ("pvc-protection",)),
    ControllerName("persistentvolume-protection-controller", ("pv-protection",)),
    ControllerName("volumeattributesclass-protection-controller"),
    ControllerName("podgroup-protection-controller"),
    ControllerName("ttl-after-finished-controller", ("ttl-after-finished",)),
    ControllerName("root-ca-certificate-publisher-controller", ("root-ca-cert-publisher",)),
    ControllerName("kube-apiserver-serving-clustertrustbundle-publisher-controller"),
    ControllerName("ephemeral-volume-controller", ("ephemeral-volume",)),
    ControllerName("storageversion-garbage-collector-controller", ("storage-version-gc",)),
    ControllerName("resourceclaim-controller", ("resource-claim-controller",)),
    ControllerName("resourcepoolstatusrequest-controller"),
    ControllerName("legacy-serviceaccount-token-cleaner-controller", ("legacy-service-account-token-cleaner",)),
    ControllerName("validatingadmissionpolicy-status-controller"),
    ControllerName("service-cidr-controller"),
    ControllerName("storage-version-migrator-controller", ("svm",)),
    ControllerName("selinux-warning-controller", on_by_default=False),
)


def aliases_of(names: Iterable[ControllerName]) -> dict[str, str]:
    """Alias → canonical name. Raises ValueError if two claim the same."""
    known: dict[str, str] = {}
    canonical = {name.canonical for name in names}
    for name in names:
        for alias in name.aliases:
            if alias in known or alias in canonical:
                raise ValueError(f"the alias {alias!r} of {name.canonical} is taken")
            known[alias] = name.canonical
    return known


def is_enabled(name: str, chosen: Sequence[str], *, on_by_default: bool) -> bool:
    """Whether a controller runs, by the --controllers list with its aliases resolved: the first that names it decides.

    Source: kubernetes v1.36 staging/src/k8s.io/controller-manager/app/helper.go, IsControllerEnabled.
    """
    star = False
    for item in chosen:
        if item == name:
            return True
        if item == f"-{name}":
            return False
        star = star or item == "*"
    return star and on_by_default
