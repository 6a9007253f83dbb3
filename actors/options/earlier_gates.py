"""Feature gates of earlier releases that --emulated-version selects, as differences to the next release.

Generated, as known_gates.py. A gate that a release does not have is in the stage PRE_ALPHA.
Source: the versioned specifications of the gates in kubernetes v1.36, in the files that known_gates.py names.
tests/e2e/test_emulated_version_side_by_side.py compares the states of all gates with the real program.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcm.actors.options.known_gates import ALPHA, BETA, DEPRECATED, GA, PRE_ALPHA, Stage

EARLIER: Mapping[tuple[int, int], tuple[Stage, ...]] = {
    (1, 35): (
        Stage(
            PRE_ALPHA,
            False,
            False,
            """
            AtomicFIFO CRIListStreaming ClientsAllowCARotation ClientsAllowTLSCacheGC
            ControllerManagerReleaseLeaderElectionLockOnExit DRAListTypeAttributes
            DRANodeAllocatableResources DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus
            DRAWorkloadResourceClaims DeclarativeValidationBeta ExtendWebSocketsToKubelet
            InPlacePodVerticalScalingInitContainers ManifestBasedAdmissionControlConfig NativeHistograms
            PLEGOnDemandRelist PersistentVolumeClaimUnusedSinceTime PodLevelResourceManagers PodsAPI
            ReloadKubeletClientCAFile ResourceHealthStatusMessage ShardedListAndWatch
            StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
            StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
            TopologyAwareWorkloadScheduling UnlockWhileProcessingFIFO WorkloadAwarePreemption
            WorkloadWithJob
            """,
        ),
        Stage(
            ALPHA,
            False,
            False,
            """
            ComponentFlagz ComponentStatusz ConstrainedImpersonation CustomCPUCFSQuotaPeriod
            DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints
            DRAExtendedResource DRAPartitionableDevices InPlacePodLevelResourcesVerticalScaling
            MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs
            NodeDeclaredFeatures RelaxedServiceNameValidation ResourceHealthStatus
            RestartAllContainersOnContainerExits StrictIPCIDRValidation UnknownVersionInteroperabilityProxy
            """,
        ),
        Stage(
            BETA,
            True,
            False,
            """
            CSIServiceAccountTokenSecrets DRAAdminAccess DRAPrioritizedList DeclarativeValidation
            DisableCPUQuotaWithExclusiveCPUs ExternalServiceAccountTokenSigner ImageVolume InOrderInformers
            KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet
            MutableCSINodeAllocatableCount NodeLogQuery ProcMountType SELinuxChangePolicy
            SELinuxMountReadWriteOncePod UserNamespacesSupport
            """,
        ),
        Stage(
            BETA,
            False,
            False,
            """
            CRDObservedGenerationTracking DeclarativeValidationTakeover MutatingAdmissionPolicy
            WatchCacheInitializationPostStartHook
            """,
        ),
        Stage(
            GA,
            True,
            False,
            """
            VolumeAttributesClass
            """,
        ),
        Stage(
            GA,
            False,
            False,
            """
            ServiceCIDRStatusFieldWiping
            """,
        ),
        Stage(
            DEPRECATED,
            True,
            False,
            """
            DisableNodeKubeProxyVersion
            """,
        ),
        Stage(
            DEPRECATED,
            False,
            False,
            """
            GitRepoVolumeDriver SeparateCacheWatchRPC
            """,
        ),
    ),
    (1, 34): (
        Stage(
            PRE_ALPHA,
            False,
            False,
            """
            AuthorizePodWebsocketUpgradeCreatePermission CRDObservedGenerationTracking
            CSIServiceAccountTokenSecrets CloudControllerManagerWatchBasedRoutesReconciliation
            ConstrainedImpersonation DRADeviceTaintRules GangScheduling GenericWorkload
            ImageVolumeWithDigest InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
            MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs
            MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures OpportunisticBatching
            RestartAllContainersOnContainerExits StructuredAuthenticationConfigurationJWKSMetrics
            TaintTolerationComparisonOperators UserNamespacesHostNetworkSupport VolumeLimitScaling
            """,
        ),
        Stage(
            ALPHA,
            False,
            False,
            """
            ClearingNominatedNodeNameAfterBinding ContainerRestartRules
            DeploymentReplicaSetTerminatingReplicas EnvFiles HPAConfigurableTolerance HostnameOverride
            InformerResourceVersion KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
            MaxUnavailableStatefulSet NominatedNodeNameForExpectation PodCertificateRequest
            PodTopologyLabelsAdmission StorageVersionMigrator
            """,
        ),
        Stage(
            BETA,
            True,
            False,
            """
            ImageMaximumGCAge InPlacePodVerticalScaling JobManagedBy PodObservedGenerationTracking
            PreferSameTrafficDistribution SupplementalGroupsPolicy SystemdWatchdog
            """,
        ),
        Stage(
            BETA,
            False,
            False,
            """
            ImageVolume MutableCSINodeAllocatableCount WatchListClient
            """,
        ),
        Stage(
            GA,
            True,
            False,
            """
            ChangeContainerStatusOnKubeletRestart DisableAllocatorDualWrite DynamicResourceAllocation
            ExecProbeTimeout
            """,
        ),
        Stage(
            DEPRECATED,
            True,
            False,
            """
            AggregatedDiscoveryRemoveBetaType
            """,
        ),
        Stage(
            DEPRECATED,
            False,
            False,
            """
            AllowOverwriteTerminationGracePeriodSeconds
            """,
        ),
    ),
    (1, 33): (
        Stage(
            PRE_ALPHA,
            False,
            False,
            """
            ClearingNominatedNodeNameAfterBinding ContainerRestartRules DRAConsumableCapacity
            DRADeviceBindingConditions DRAExtendedResource DRASchedulerFilterTimeout
            DetectCacheInconsistency EnvFiles HostnameOverride InPlacePodVerticalScalingExclusiveMemory
            MatchLabelKeysInPodTopologySpreadSelectorMerge NominatedNodeNameForExpectation
            PodCertificateRequest PreventStaticPodAPIReferences RelaxedServiceNameValidation
            SchedulerAsyncAPICalls SizeBasedListCostEstimate
            StructuredAuthenticationConfigurationEgressSelector TokenRequestServiceAccountUIDValidation
            """,
        ),
        Stage(
            ALPHA,
            False,
            False,
            """
            DRAAdminAccess DRAPrioritizedList ExternalServiceAccountTokenSigner KubeletPSI
            KubeletPodResourcesDynamicResources KubeletPodResourcesGet
            KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
            MutableCSINodeAllocatableCount MutatingAdmissionPolicy PodLevelResources
            PodObservedGenerationTracking PreferSameTrafficDistribution WindowsGracefulNodeShutdown
            """,
        ),
        Stage(
            BETA,
            True,
            False,
            """
            APIServerTracing AnonymousAuthConfigurableEndpoints AuthorizeNodeWithSelectors
            AuthorizeWithSelectors ConsistentListFromCache JobPodReplacementPolicy
            KubeletCgroupDriverFromCRI KubeletTracing NodeSwap OrderedNamespaceDeletion
            PodLifecycleSleepAction PodLifecycleSleepActionAllowZero RecoverVolumeExpansionFailure
            RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
            ResilientWatchCacheInitialization SchedulerQueueingHints SeparateTaintEvictionController
            StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
            StructuredAuthenticationConfiguration WinDSR WinOverlay
            """,
        ),
        Stage(
            BETA,
            False,
            False,
            """
            DisableAllocatorDualWrite DynamicResourceAllocation VolumeAttributesClass WatchList
            """,
        ),
        Stage(
            GA,
            True,
            False,
            """
            MultiCIDRServiceAllocator
            """,
        ),
        Stage(
            GA,
            False,
            False,
            """
            KubeletPodResourcesListUseActivePods
            """,
        ),
    ),
}
