"""The flags of the node, network, storage, identity and governance controllers.

Names and defaults: cmd/kube-controller-manager/app/options/*controller.go, Kubernetes 1.36, but for
--node-monitor-grace-period, which is what the articles say; flags
that later releases took away mean what they meant.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.flags.declaration import flag
from runtime.flags.values import DURATION, FLOAT32

GONE = "Kubernetes removed it"
YEAR = 8760 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachDetach:
    reconcile_sync_period: float = flag(
        60.0,
        "How often attached volumes are compared with what nodes say.",
        name="attach-detach-reconcile-sync-period",
        kind=DURATION,
        config="ReconcilerSyncLoopPeriod",
    )
    disable_reconcile_sync: bool = flag(
        False,
        "Do not compare.",
        name="disable-attach-detach-reconcile-sync",
        config="DisableAttachDetachReconcilerSync",
    )
    disable_force_detach_on_timeout: bool = flag(
        False, "Do not detach by force after six minutes.", config="DisableForceDetachOnTimeout"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSigning:
    cert_file: str = flag(
        "",
        "Certificate to sign with, for every signer.",
        name="cluster-signing-cert-file",
        config="ClusterSigningCertFile",
    )
    key_file: str = flag("", "Its key.", name="cluster-signing-key-file", config="ClusterSigningKeyFile")
    duration: float = flag(
        YEAR,
        "How long signed certificates are valid, at most.",
        name="cluster-signing-duration",
        kind=DURATION,
        config="ClusterSigningDuration",
        former=("experimental-cluster-signing-duration",),
    )
    kubelet_serving_cert_file: str = flag(
        "",
        "Certificate to sign with for kubernetes.io/kubelet-serving.",
        name="cluster-signing-kubelet-serving-cert-file",
        config="KubeletServingSignerConfiguration.CertFile",
    )
    kubelet_serving_key_file: str = flag(
        "",
        "Its key.",
        name="cluster-signing-kubelet-serving-key-file",
        config="KubeletServingSignerConfiguration.KeyFile",
    )
    kubelet_client_cert_file: str = flag(
        "",
        "Certificate to sign with for kubernetes.io/kube-apiserver-client-kubelet.",
        name="cluster-signing-kubelet-client-cert-file",
        config="KubeletClientSignerConfiguration.CertFile",
    )
    kubelet_client_key_file: str = flag(
        "",
        "Its key.",
        name="cluster-signing-kubelet-client-key-file",
        config="KubeletClientSignerConfiguration.KeyFile",
    )
    kube_apiserver_client_cert_file: str = flag(
        "",
        "Certificate to sign with for kubernetes.io/kube-apiserver-client.",
        name="cluster-signing-kube-apiserver-client-cert-file",
        config="KubeAPIServerClientSignerConfiguration.CertFile",
    )
    kube_apiserver_client_key_file: str = flag(
        "",
        "Its key.",
        name="cluster-signing-kube-apiserver-client-key-file",
        config="KubeAPIServerClientSignerConfiguration.KeyFile",
    )
    legacy_unknown_cert_file: str = flag(
        "",
        "Certificate to sign with for kubernetes.io/legacy-unknown.",
        name="cluster-signing-legacy-unknown-cert-file",
        config="LegacyUnknownSignerConfiguration.CertFile",
    )
    legacy_unknown_key_file: str = flag(
        "",
        "Its key.",
        name="cluster-signing-legacy-unknown-key-file",
        config="LegacyUnknownSignerConfiguration.KeyFile",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTaintEviction:
    concurrent_syncs: int = flag(8, "Pods and rules synced at once.", name="concurrent-device-taint-eviction-syncs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    concurrent_syncs: int = flag(
        5, "Services synced at once.", name="concurrent-endpoint-syncs", config="ConcurrentEndpointSyncs"
    )
    updates_batch_period: float = flag(
        0.0,
        "Changes of pods are gathered for so long.",
        name="endpoint-updates-batch-period",
        kind=DURATION,
        config="EndpointUpdatesBatchPeriod",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSlice:
    concurrent_syncs: int = flag(
        5,
        "Services synced at once, 1 to 50.",
        name="concurrent-service-endpoint-syncs",
        config="ConcurrentServiceEndpointSyncs",
    )
    updates_batch_period: float = flag(
        0.0,
        "Changes of pods are gathered for so long.",
        name="endpointslice-updates-batch-period",
        kind=DURATION,
        config="EndpointUpdatesBatchPeriod",
    )
    max_endpoints: int = flag(
        100, "Endpoints in one slice, 1 to 1000.", name="max-endpoints-per-slice", config="MaxEndpointsPerSlice"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSliceMirroring:
    concurrent_syncs: int = flag(
        5,
        "Endpoints synced at once, 1 to 50.",
        name="mirroring-concurrent-service-endpoint-syncs",
        config="MirroringConcurrentServiceEndpointSyncs",
    )
    updates_batch_period: float = flag(
        0.0,
        "Changes of Endpoints are gathered for so long.",
        name="mirroring-endpointslice-updates-batch-period",
        kind=DURATION,
        config="MirroringEndpointUpdatesBatchPeriod",
    )
    max_endpoints: int = flag(
        1000,
        "Addresses taken from one subset, 1 to 1000.",
        name="mirroring-max-endpoints-per-subset",
        config="MirroringMaxEndpointsPerSubset",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralVolume:
    concurrent_syncs: int = flag(
        5, "Volumes synced at once.", name="concurrent-ephemeralvolume-syncs", config="ConcurrentEphemeralVolumeSyncs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageCollector:
    enabled: bool = flag(
        True, "Delete what has lost its owners.", name="enable-garbage-collector", config="EnableGarbageCollector"
    )
    concurrent_syncs: int = flag(
        20, "Objects looked at at once.", name="concurrent-gc-syncs", config="ConcurrentGCSyncs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyTokenCleaner:
    clean_up_period: float = flag(
        YEAR,
        "Token secrets unused for so long are deleted.",
        name="legacy-service-account-token-clean-up-period",
        kind=DURATION,
        config="CleanUpPeriod",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    concurrent_syncs: int = flag(
        10, "Namespaces synced at once.", name="concurrent-namespace-syncs", config="ConcurrentNamespaceSyncs"
    )
    sync_period: float = flag(
        300.0,
        "Every namespace is looked at again after this.",
        name="namespace-sync-period",
        kind=DURATION,
        config="NamespaceSyncPeriod",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIpam:
    service_cluster_ip_range: str = flag(
        "", "Range of service addresses, never given to nodes; two for dual-stack.", config="ServiceCIDR"
    )
    mask_size: int = flag(
        0, "Size of a node's range; 0: 24, or 64 for IPv6.", name="node-cidr-mask-size", config="NodeCIDRMaskSize"
    )
    mask_size_ipv4: int = flag(
        0, "The same for IPv4 with dual-stack.", name="node-cidr-mask-size-ipv4", config="NodeCIDRMaskSizeIPv4"
    )
    mask_size_ipv6: int = flag(
        0, "The same for IPv6 with dual-stack.", name="node-cidr-mask-size-ipv6", config="NodeCIDRMaskSizeIPv6"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLifecycle:
    monitor_grace_period: float = flag(
        40.0,
        "A node that says nothing for so long is unhealthy.",
        name="node-monitor-grace-period",
        kind=DURATION,
        config="NodeMonitorGracePeriod",
    )
    startup_grace_period: float = flag(
        60.0,
        "The same for a node that has just started.",
        name="node-startup-grace-period",
        kind=DURATION,
        config="NodeStartupGracePeriod",
    )
    eviction_rate: float = flag(
        0.1,
        "Nodes a second to be emptied in a zone that is well.",
        name="node-eviction-rate",
        kind=FLOAT32,
        config="NodeEvictionRate",
    )
    secondary_eviction_rate: float = flag(
        0.01,
        "Nodes a second to be emptied in a zone that is not; 0 in a cluster that is not large.",
        name="secondary-node-eviction-rate",
        kind=FLOAT32,
        config="SecondaryNodeEvictionRate",
    )
    large_cluster_size_threshold: int = flag(
        50, "With more nodes a cluster is large.", config="LargeClusterSizeThreshold"
    )
    unhealthy_zone_threshold: float = flag(
        0.55,
        "A zone is not well when this part of its nodes, and at least 3, are not ready.",
        kind=FLOAT32,
        config="UnhealthyZoneThreshold",
    )
    full_disruption_eviction_rate: float = flag(
        -1.0,
        "Nodes a second to be emptied in a zone none of whose nodes is ready, while other zones have some; "
        "below 0: as --node-eviction-rate.",
        kind=FLOAT32,
    )
    pause_evictions_in_disrupted_zones: bool = flag(
        False, "Empty no node of a disrupted zone, in part or whole, and take NoExecute taints back there."
    )
    live_heartbeat_reads: bool = flag(
        False,
        "Ask the server for a node's Lease before the node is given up while its watch says nothing; "
        "else wait for the watch.",
    )
    pod_eviction_timeout: float = flag(
        300.0,
        "Pods of a failed node are deleted after this, without taints.",
        kind=DURATION,
        config="PodEvictionTimeout",
    )
    enable_taint_manager: bool = flag(
        True, "Evict by taints; else, as with --feature-gates=TaintBasedEvictions=false, by deleting pods directly."
    )
    deleting_pods_qps: float = flag(
        0.1, "Nodes a second whose pods are deleted, without taints; --node-eviction-rate if not given.", kind=FLOAT32
    )
    deleting_pods_burst: int = flag(1, "Nodes whose pods are deleted at once, without taints.")
    register_retry_count: int = flag(10, "Tries to register a node.", hidden=True, retired=GONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolumeBinder:
    sync_period: float = flag(
        15.0,
        "How often volumes and claims are matched.",
        name="pvclaimbinder-sync-period",
        kind=DURATION,
        config="PVClaimBinderSyncPeriod",
    )
    enable_dynamic_provisioning: bool = flag(
        True, "Make volumes for claims.", config="VolumeConfiguration.EnableDynamicProvisioning"
    )
    enable_hostpath_provisioner: bool = flag(
        False, "Make them on the host, for tests.", config="VolumeConfiguration.EnableHostPathProvisioning"
    )
    flex_volume_plugin_dir: str = flag(
        "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
        "Directory of volume plugins.",
        config="VolumeConfiguration.FlexVolumePluginDir",
    )
    recycler_pod_template_nfs: str = flag(
        "",
        "File with the pod that scrubs an NFS volume.",
        name="pv-recycler-pod-template-filepath-nfs",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathNFS",
    )
    recycler_minimum_timeout_nfs: int = flag(
        300,
        "Seconds that it has, at least.",
        name="pv-recycler-minimum-timeout-nfs",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutNFS",
    )
    recycler_increment_timeout_nfs: int = flag(
        30,
        "Seconds more a Gi.",
        name="pv-recycler-increment-timeout-nfs",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutNFS",
    )
    recycler_pod_template_hostpath: str = flag(
        "",
        "File with the pod that scrubs a host path.",
        name="pv-recycler-pod-template-filepath-hostpath",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathHostPath",
    )
    recycler_minimum_timeout_hostpath: int = flag(
        60,
        "Seconds that it has, at least.",
        name="pv-recycler-minimum-timeout-hostpath",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.MinimumTimeoutHostPath",
    )
    recycler_increment_timeout_hostpath: int = flag(
        30,
        "Seconds more a Gi.",
        name="pv-recycler-timeout-increment-hostpath",
        config="VolumeConfiguration.PersistentVolumeRecyclerConfiguration.IncrementTimeoutHostPath",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuota:
    concurrent_syncs: int = flag(
        5, "Quotas synced at once.", name="concurrent-resource-quota-syncs", config="ConcurrentResourceQuotaSyncs"
    )
    sync_period: float = flag(
        300.0,
        "Every quota is counted again after this.",
        name="resource-quota-sync-period",
        kind=DURATION,
        config="ResourceQuotaSyncPeriod",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    concurrent_token_syncs: int = flag(
        5,
        "Accounts and secrets synced at once.",
        name="concurrent-serviceaccount-token-syncs",
        config="ConcurrentSATokenSyncs",
    )
    private_key_file: str = flag(
        "", "Key that signs tokens.", name="service-account-private-key-file", config="ServiceAccountKeyFile"
    )
    root_ca_file: str = flag("", "Certificates that pods shall trust.", config="RootCAFile")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLoadBalancer:
    concurrent_syncs: int = flag(
        1, "Services synced at once.", name="concurrent-service-syncs", config="ConcurrentServiceSyncs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatingAdmissionPolicyStatus:
    concurrent_syncs: int = flag(
        5,
        "Policies synced at once.",
        name="concurrent-validating-admission-policy-status-syncs",
        config="ConcurrentPolicySyncs",
    )
