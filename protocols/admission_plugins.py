"""Admission plugins of the embedded API server, and their defaults.

Source: kubernetes pkg/kubeapiserver/options/plugins.go (v1.36). Difference: NodeRestriction is on by default, as
in kubeadm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

NAMESPACE_LIFECYCLE = "NamespaceLifecycle"
LIMIT_RANGER = "LimitRanger"
SERVICE_ACCOUNT = "ServiceAccount"
NODE_RESTRICTION = "NodeRestriction"
TAINT_NODES = "TaintNodesByCondition"
ALWAYS_PULL_IMAGES = "AlwaysPullImages"
POD_SECURITY = "PodSecurity"
PRIORITY = "Priority"
DEFAULT_TOLERATION_SECONDS = "DefaultTolerationSeconds"
DEFAULT_STORAGE_CLASS = "DefaultStorageClass"
STORAGE_OBJECT_IN_USE_PROTECTION = "StorageObjectInUseProtection"
PERSISTENT_VOLUME_CLAIM_RESIZE = "PersistentVolumeClaimResize"
RUNTIME_CLASS = "RuntimeClass"
CERTIFICATE_APPROVAL = "CertificateApproval"
CERTIFICATE_SIGNING = "CertificateSigning"
CLUSTER_TRUST_BUNDLE_ATTEST = "ClusterTrustBundleAttest"
CERTIFICATE_SUBJECT_RESTRICTION = "CertificateSubjectRestriction"
DEFAULT_INGRESS_CLASS = "DefaultIngressClass"
OWNER_REFERENCES = "OwnerReferencesPermissionEnforcement"
DENY_EXTERNAL_IPS = "DenyServiceExternalIPs"
POD_TOPOLOGY_LABELS = "PodTopologyLabels"
POD_GROUP_PROTECTION = "PodGroupProtection"
POD_GROUP_WORKLOAD_EXISTS = "PodGroupWorkloadExists"
MUTATING_WEBHOOK, VALIDATING_WEBHOOK = "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"
MUTATING_POLICY = "MutatingAdmissionPolicy"
VALIDATING_POLICY = "ValidatingAdmissionPolicy"
RESOURCE_QUOTA = "ResourceQuota"

ON_BY_DEFAULT = frozenset(
    {
        NAMESPACE_LIFECYCLE,
        LIMIT_RANGER,
        SERVICE_ACCOUNT,
        NODE_RESTRICTION,
        TAINT_NODES,
        POD_SECURITY,
        PRIORITY,
        DEFAULT_TOLERATION_SECONDS,
        DEFAULT_STORAGE_CLASS,
        STORAGE_OBJECT_IN_USE_PROTECTION,
        PERSISTENT_VOLUME_CLAIM_RESIZE,
        RUNTIME_CLASS,
        CERTIFICATE_APPROVAL,
        CERTIFICATE_SIGNING,
        CLUSTER_TRUST_BUNDLE_ATTEST,
        CERTIFICATE_SUBJECT_RESTRICTION,
        DEFAULT_INGRESS_CLASS,
        POD_TOPOLOGY_LABELS,
        POD_GROUP_PROTECTION,
        POD_GROUP_WORKLOAD_EXISTS,
        MUTATING_WEBHOOK,
        VALIDATING_WEBHOOK,
        MUTATING_POLICY,
        VALIDATING_POLICY,
        RESOURCE_QUOTA,
    }
)
# Plugins that are harmful without a controller, and the name of that controller.
NEED_CONTROLLERS = {
    SERVICE_ACCOUNT: "serviceaccount-controller",
    TAINT_NODES: "node-lifecycle-controller",
    STORAGE_OBJECT_IN_USE_PROTECTION: "persistentvolumeclaim-protection-controller",
    POD_GROUP_PROTECTION: "podgroup-protection-controller",
}
WITHOUT_CONTROLLERS = ON_BY_DEFAULT - frozenset(NEED_CONTROLLERS)
KNOWN = ON_BY_DEFAULT | {ALWAYS_PULL_IMAGES, OWNER_REFERENCES, DENY_EXTERNAL_IPS}


def without_controllers(runs: Callable[[str], bool], *, enable: Collection[str] = ()) -> tuple[str, ...]:
    """Return the plugins to disable because their controller does not run, unless they are enabled by name."""
    return tuple(plugin for plugin, needed in NEED_CONTROLLERS.items() if plugin not in enable and not runs(needed))


def enabled_plugins(*, enable: Collection[str], disable: Collection[str]) -> frozenset[str]:
    """Apply --enable-admission-plugins and --disable-admission-plugins.

    Raises ValueError for an unknown name, and for a name in both.
    """
    unknown = [plugin for plugin in (*enable, *disable) if plugin not in KNOWN]
    if unknown:
        raise ValueError(f"there is no admission plugin {', '.join(unknown)} here")
    both = sorted({*enable} & {*disable})
    if both:
        raise ValueError(f"{', '.join(both)} in both enable-admission-plugins and disable-admission-plugins")
    return (ON_BY_DEFAULT | {*enable}) - {*disable}
