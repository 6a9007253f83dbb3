"""Log lines of upstream about the start and the end of each controller, which operators search for.

Source: kubernetes v1.36, Run of each controller below pkg/controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class LifecycleLines(NamedTuple):
    """Messages of one controller, and the value of their only fact, if they have one.

    fact: "controller" or "name"; "" for none.
    """

    starting: str
    stopping: str
    fact: str = ""
    value: str = ""

    @property
    def facts(self) -> Mapping[str, str]:
        return {self.fact: self.value} if self.fact else {}


_NAMED = {
    "bootstrap-signer-controller": LifecycleLines("Starting", "Shutting down"),
    "certificatesigningrequest-approving-controller": LifecycleLines(
        "Starting certificate controller", "Shutting down certificate controller", "name", "csrapproving"
    ),
    # Upstream has one controller for each signer, and the name of the signer here.
    "certificatesigningrequest-signing-controller": LifecycleLines(
        "Starting certificate controller", "Shutting down certificate controller", "name", "csrsigning"
    ),
    "cronjob-controller": LifecycleLines("Starting cronjob controller v2", "Shutting down cronjob controller v2"),
    "deployment-controller": LifecycleLines(
        "Starting controller", "Shutting down controller", "controller", "deployment"
    ),
    "device-taint-eviction-controller": LifecycleLines(
        "Starting", "Shut down controller", "controller", "device-taint-eviction-controller"
    ),
    "garbage-collector-controller": LifecycleLines(
        "Starting controller", "Shutting down controller", "controller", "garbagecollector"
    ),
    "node-ipam-controller": LifecycleLines("Starting ipam controller", "Shutting down ipam controller"),
    "replicaset-controller": LifecycleLines("Starting controller", "Shutting down controller", "name", "replicaset"),
    "replicationcontroller-controller": LifecycleLines(
        "Starting controller", "Shutting down controller", "name", "replicationcontroller"
    ),
    "service-cidr-controller": LifecycleLines("Starting", "Shutting down", "controller", "service-cidr-controller"),
    "serviceaccount-token-controller": LifecycleLines("Starting", "Shutting down"),
    "statefulset-controller": LifecycleLines(
        "Starting stateful set controller", "Shutting down statefulset controller"
    ),
    # Upstream runs three controllers under this name, and each logs its own.
    "storage-version-migrator-controller": LifecycleLines(
        "Starting", "Shutting down", "controller", "storage-version-migrator-controller"
    ),
    "storageversion-garbage-collector-controller": LifecycleLines(
        "Starting storage version garbage collector", "Shutting down storage version garbage collector"
    ),
    "taint-eviction-controller": LifecycleLines(
        "Starting", "Shutting down controller", "controller", "taint-eviction-controller"
    ),
}

# Of the other controllers: the words between "Starting" or "Shutting down" and "controller".
_WORDS = {
    "certificatesigningrequest-cleaner-controller": "CSR cleaner",
    "clusterrole-aggregation-controller": "ClusterRoleAggregator",
    "daemonset-controller": "daemon sets",
    "disruption-controller": "disruption",
    "endpoints-controller": "endpoint",
    "endpointslice-controller": "endpoint slice",
    "endpointslice-mirroring-controller": "EndpointSliceMirroring",
    "ephemeral-volume-controller": "ephemeral volume",
    "horizontal-pod-autoscaler-controller": "HPA",
    "job-controller": "job",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller": "ClusterTrustBundle CA cert publisher",
    "legacy-serviceaccount-token-cleaner-controller": "legacy service account token cleaner",
    "namespace-controller": "namespace",
    "node-lifecycle-controller": "node",
    "node-route-controller": "route",
    "persistentvolume-attach-detach-controller": "attach detach",
    "persistentvolume-binder-controller": "persistent volume",
    "persistentvolume-expander-controller": "expand",
    "persistentvolume-protection-controller": "PV protection",
    "persistentvolumeclaim-protection-controller": "PVC protection",
    "pod-garbage-collector-controller": "GC",
    "podcertificaterequest-cleaner-controller": "PodCertificateRequest cleaner",
    "podgroup-protection-controller": "PodGroup protection",
    "resourceclaim-controller": "resource claim",
    "resourcepoolstatusrequest-controller": "ResourcePoolStatusRequest",
    "resourcequota-controller": "resource quota",
    "root-ca-certificate-publisher-controller": "root CA cert publisher",
    "selinux-warning-controller": "SELinux warning",
    "service-lb-controller": "service",
    "serviceaccount-controller": "service account",
    "token-cleaner-controller": "token cleaner",
    "ttl-after-finished-controller": "TTL after finished",
    "ttl-controller": "TTL",
    "volumeattributesclass-protection-controller": "VAC protection",
}

LIFECYCLE_LINES: Mapping[str, LifecycleLines] = {
    **_NAMED,
    **{
        name: LifecycleLines(f"Starting {words} controller", f"Shutting down {words} controller")
        for name, words in _WORDS.items()
    },
}
# Of controllers without such lines in upstream (cloud-node-lifecycle-controller,
# validatingadmissionpolicy-status-controller), and of controllers that upstream lacks.
OTHER = LifecycleLines("Starting controller", "Shutting down controller")
