"""Feature gates of the release after 1.36 that --emulated-version selects, as differences to 1.36.

Source: kubernetes pkg/features/kube_features.go in the branch for 1.37, after the merge of 24 July 2026, and the gates
of k8s.io/apiserver, client-go, component-base and controller-manager in that week. Gates that were added or changed
later are from the release notes of v1.37.0-rc.0. docs/next-release.md lists what could not be verified.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcm.actors.options.known_gates import ALPHA, BETA, DEPENDENCIES, DEPRECATED, GA, Stage

LATER: Mapping[tuple[int, int], tuple[Stage, ...]] = {
    (1, 37): (
        Stage(
            ALPHA,
            False,
            False,
            """
            APIServerWebhookAuthenticationToken AtomicWriteVolumeUserFields CompositePodGroup
            ConditionalAuthorization ConsistentListFromCacheSkipTimeoutFallback DRADerivedAttributes
            DRADeviceCompatibilityGroups DRAOptionalNodeOperations DRAPartitionableDevicesType DefaultPodSysctls
            EmptyDirVolumeMode EvictionRequestAPI GRPCContainerProbeTLS H2CContainerProbe
            InPlacePodVerticalScalingMemoryBackedVolumes InPlacePodVerticalScalingSchedulerPreemption
            InterPodAffinityHostnameFastPath KubeProxyNFTablesLocalhostNodePorts
            KubeletAllocatedPodsEndpoint NodeLifecycleConditions PodGroupPreemptionPolicy SchedulerPreQueueingHints
            StatefulSetRecreateStrategy VolumeBindMountOptions
            """,
        ),
        Stage(
            BETA,
            True,
            False,
            """
            AllowUnsafeMalformedObjectDeletion ConcurrentWatchObjectDecode DRAFractionalCapacityRange EtcdRangeStream
            ExcludeAdmissionWebhookVirtualResources HPAGeneration HPAOptimizedSelectorStore HPAScaleToZero
            HugepageAwareEviction KubeletInUserNamespace ManifestBasedAdmissionControlConfig MaxUnavailableStatefulSet
            MemoryQoS NFTablesNetlink NativeHistograms NodeControllerLeaseCircuitBreaker
            PersistentVolumeClaimUnusedSinceTime PodLevelResourceManagers PodLevelResourcesFixDefaulting
            PodLevelResourcesFixKubeletQOSClass PodsAPI StaleControllerConsistencyHPA StorageCapacityScoring
            VolumeLimitScaling WatchListCompression WebhookRoundTripLoadBalancing
            """,
        ),
        Stage(
            BETA,
            False,
            False,
            """
            DRAWorkloadResourceClaims GenericWorkload PodAndContainerStatsFromCRI
            """,
        ),
        Stage(
            GA,
            True,
            False,
            """
            ClusterTrustBundle ClusterTrustBundleProjection DRADeviceTaintRules DRADeviceTaints PodCertificateRequest
            SELinuxMount StorageVersionMigrator
            """,
        ),
        Stage(
            GA,
            True,
            True,
            """
            DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus HPAConfigurableTolerance
            HostnameOverride InPlacePodVerticalScalingInitContainers NodeDeclaredFeatures PLEGOnDemandRelist
            PodReadyToStartContainersCondition RelaxedServiceNameValidation WatchCacheInitializationPostStartHook
            """,
        ),
        Stage(
            DEPRECATED,
            True,
            False,
            """
            KubeProxyIPVS
            """,
        ),
        Stage(
            DEPRECATED,
            True,
            True,
            """
            DisableCPUQuotaWithExclusiveCPUs
            """,
        ),
        Stage(
            DEPRECATED,
            False,
            True,
            """
            DeclarativeValidationTakeover
            """,
        ),
    ),
}
_GONE_IN_1_37 = """
    APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
    AuthorizeWithSelectors BtreeWatchCache ConsistentListFromCache GangScheduling JobBackoffLimitPerIndex
    JobPodReplacementPolicy JobSuccessPolicy LogarithmicScaleDown OrderedNamespaceDeletion PodLifecycleSleepAction
    PodLifecycleSleepActionAllowZero PreventStaticPodAPIReferences RelaxedDNSSearchValidation
    ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
    WorkloadAwarePreemption
"""
# Gates that a release no longer has: the command line refuses them as unrecognized.
REMOVED: Mapping[tuple[int, int], frozenset[str]] = {(1, 37): frozenset(_GONE_IN_1_37.split())}
# Dependencies that 1.36 does not have.
_NEW_DEPENDENCIES = {
    "CompositePodGroup": ("GenericWorkload", "TopologyAwareWorkloadScheduling"),
    "DRAFractionalCapacityRange": ("DRAConsumableCapacity",),
    "DRAOptionalNodeOperations": ("DynamicResourceAllocation", "NodeDeclaredFeatures"),
    "DRAPartitionableDevicesType": ("DynamicResourceAllocation", "DRAPartitionableDevices", "DRAResourcePoolStatus"),
    "EventedPLEG": ("PLEGOnDemandRelist",),
    "H2CContainerProbe": ("NodeDeclaredFeatures",),
    "InPlacePodVerticalScalingMemoryBackedVolumes": ("InPlacePodVerticalScaling", "NodeDeclaredFeatures"),
    "InPlacePodVerticalScalingSchedulerPreemption": ("InPlacePodVerticalScaling",),
    "KubeletAllocatedPodsEndpoint": ("InPlacePodVerticalScaling",),
    "NodeControllerLeaseCircuitBreaker": ("AtomicFIFO",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "PodLevelResourcesFixDefaulting": ("PodLevelResources",),
    "PodLevelResourcesFixKubeletQOSClass": ("PodLevelResources",),
    "StaleControllerConsistencyHPA": ("AtomicFIFO",),
}


def later_dependencies(release: tuple[int, int]) -> Mapping[str, tuple[str, ...]]:
    """Return what each gate of a release after 1.36 depends on, without the gates that were removed."""
    gone = frozenset(name for later, names in REMOVED.items() if later <= release for name in names)
    return {
        name: tuple(other for other in others if other not in gone)
        for name, others in {**DEPENDENCIES, **_NEW_DEPENDENCIES}.items()
        if name not in gone
    }
