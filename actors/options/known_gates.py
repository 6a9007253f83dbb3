"""Every feature gate of kube-controller-manager 1.36, by its stage.

Generated. As upstream, the command line accepts the gates of all components.
Source: kubernetes v1.36 pkg/features/kube_features.go, and k8s.io/apiserver, apiextensions-apiserver, component-base,
controller-manager and client-go/features, for version 1.36. docs/next-release.md describes how to
regenerate it, and tests/e2e/test_real_command_line.py compares it with the real program.
"""

from __future__ import annotations

from typing import NamedTuple


class Stage(NamedTuple):
    """Gates with the same properties."""

    stage: str
    default: bool
    locked: bool  # can only be set to their default
    names: str  # separated by whitespace


ALPHA, BETA, GA, DEPRECATED = "ALPHA", "BETA", "GA", "DEPRECATED"
PRE_ALPHA = "PreAlpha"  # of a gate that an emulated release does not have

STAGES = (
    Stage(
        ALPHA,
        False,
        False,
        """
        APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
        CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
        CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ContainerStopSignals
        ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource DRAListTypeAttributes
        DRANodeAllocatableResources DRAResourcePoolStatus DRAWorkloadResourceClaims EventedPLEG GangScheduling
        GenericWorkload HPAScaleToZero ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
        InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions
        ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
        PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
        PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay
        RuntimeClassInImageCriApi ShardedListAndWatch StorageCapacityScoring StorageVersionAPI
        TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
        UserNamespacesHostNetworkSupport VolumeLimitScaling WindowsCPUAndMemoryAffinity WorkloadAwarePreemption
        WorkloadWithJob
        """,
    ),
    Stage(
        BETA,
        True,
        False,
        """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
        AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
        ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
        ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
        DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource
        DRAPartitionableDevices DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization
        DRASchedulerFilterTimeout DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas
        DetectCacheInconsistency EnvFiles ExtendWebSocketsToKubelet GracefulNodeShutdown
        GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance HostnameOverride
        InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
        InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
        KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
        LoggingBetaOptions MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
        MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
        NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost
        PodLevelResources PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
        PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus
        ResourceHealthStatusMessage RestartAllContainersOnContainerExits RotateKubeletServerCertificate
        SchedulerAsyncPreemption SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction
        SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
        StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
        StatefulSetSemanticRevisionComparison StorageVersionHash StrictIPCIDRValidation
        StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
        TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions
        TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
        UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook
        WatchList WatchListClient WindowsGracefulNodeShutdown
        """,
    ),
    Stage(
        BETA,
        False,
        False,
        """
        ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode CoordinatedLeaderElection
        DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
        PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator
        """,
    ),
    Stage(
        GA,
        True,
        False,
        """
        AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList InformerResourceVersion
        MutatingAdmissionPolicy
        """,
    ),
    Stage(
        GA,
        True,
        True,
        """
        APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
        AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions CRDValidationRatcheting
        CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess
        DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
        ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers
        InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy
        KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
        KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown MatchLabelKeysInPodAffinity
        MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
        NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion
        PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking
        PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure
        RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
        ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod
        SchedulerQueueingHints SeparateTaintEvictionController ServiceAccountTokenJTI
        ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
        SidecarContainers StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
        StructuredAuthenticationConfiguration SupplementalGroupsPolicy SystemdWatchdog
        TopologyManagerPolicyOptions UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
        """,
    ),
    Stage(
        DEPRECATED,
        True,
        False,
        """
        DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
        StorageNamespaceIndex
        """,
    ),
    Stage(
        DEPRECATED,
        True,
        True,
        """
        AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion
        """,
    ),
    Stage(
        DEPRECATED,
        False,
        False,
        """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart
        DeclarativeValidationTakeover KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
        """,
    ),
    Stage(
        DEPRECATED,
        False,
        True,
        """
        AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
        """,
    ),
)

# What each gate depends on: it can be on only if these are on. Source: defaultKubernetesFeatureGateDependencies.
DEPENDENCIES = {
    name: tuple(others.split())
    for name, _, others in (
        line.strip().partition(": ")
        for line in """
        AuthorizeNodeWithSelectors: AuthorizeWithSelectors
        ClusterTrustBundleProjection: ClusterTrustBundle
        DRAAdminAccess: DynamicResourceAllocation
        DRAConsumableCapacity: DynamicResourceAllocation
        DRADeviceBindingConditions: DynamicResourceAllocation DRAResourceClaimDeviceStatus
        DRADeviceTaintRules: DRADeviceTaints
        DRADeviceTaints: DynamicResourceAllocation
        DRAExtendedResource: DynamicResourceAllocation
        DRAListTypeAttributes: DynamicResourceAllocation
        DRANodeAllocatableResources: DynamicResourceAllocation
        DRAPartitionableDevices: DynamicResourceAllocation
        DRAPrioritizedList: DynamicResourceAllocation
        DRAResourceClaimGranularStatusAuthorization: DynamicResourceAllocation DRAResourceClaimDeviceStatus
        DRAResourcePoolStatus: DynamicResourceAllocation
        DRASchedulerFilterTimeout: DynamicResourceAllocation
        DRAWorkloadResourceClaims: DynamicResourceAllocation GenericWorkload
        DeclarativeValidationBeta: DeclarativeValidation
        DeclarativeValidationTakeover: DeclarativeValidation
        DisableAllocatorDualWrite: MultiCIDRServiceAllocator
        ExtendWebSocketsToKubelet: NodeDeclaredFeatures
        GangScheduling: GenericWorkload
        GracefulNodeShutdownBasedOnPodPriority: GracefulNodeShutdown
        ImageVolumeWithDigest: ImageVolume
        InPlacePodLevelResourcesVerticalScaling: InPlacePodVerticalScaling PodLevelResources NodeDeclaredFeatures
        InPlacePodVerticalScalingExclusiveCPUs: InPlacePodVerticalScaling
        InPlacePodVerticalScalingExclusiveMemory: InPlacePodVerticalScaling
        InPlacePodVerticalScalingInitContainers: InPlacePodVerticalScaling NodeDeclaredFeatures
        MatchLabelKeysInPodTopologySpreadSelectorMerge: MatchLabelKeysInPodTopologySpread
        PodCertificateRequest: AuthorizeNodeWithSelectors
        PodLevelResourceManagers: PodLevelResources
        PodLifecycleSleepActionAllowZero: PodLifecycleSleepAction
        ProcMountType: UserNamespacesSupport
        ResourceHealthStatus: DynamicResourceAllocation
        ResourceHealthStatusMessage: ResourceHealthStatus
        RestartAllContainersOnContainerExits: ContainerRestartRules NodeDeclaredFeatures
        ServiceAccountTokenNodeBinding: ServiceAccountTokenNodeBindingValidation
        StaleControllerConsistencyDaemonSet: AtomicFIFO
        StaleControllerConsistencyJob: AtomicFIFO
        StaleControllerConsistencyReplicaSet: AtomicFIFO
        StaleControllerConsistencyStatefulSet: AtomicFIFO
        StorageVersionAPI: APIServerIdentity
        StructuredAuthenticationConfigurationEgressSelector: StructuredAuthenticationConfiguration
        StructuredAuthenticationConfigurationJWKSMetrics: StructuredAuthenticationConfiguration
        TopologyAwareWorkloadScheduling: GenericWorkload
        UnknownVersionInteroperabilityProxy: APIServerIdentity
        UserNamespacesHostNetworkSupport: UserNamespacesSupport NodeDeclaredFeatures
        WindowsGracefulNodeShutdown: GracefulNodeShutdown
        WorkloadAwarePreemption: GangScheduling
        WorkloadWithJob: GenericWorkload
        """.strip().splitlines()
    )
}
