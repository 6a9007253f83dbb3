"""Feature gates: which there are, and what --feature-gates makes of them.

Stages and defaults: pkg/features/kube_features.go and client-go's features, Kubernetes 1.36, those that controllers
look at. TaintBasedEvictions is older: its default is today's behaviour, and false asks for eviction without taints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from runtime.flags.values import parse_bool

COMPONENT = "kube"


@dataclass(frozen=True, slots=True)
class Gate:
    """stage: ALPHA, BETA or GA. locked: can be set to its default only."""

    default: bool
    stage: str
    locked: bool = False


ALPHA, BETA, GA = "ALPHA", "BETA", "GA"
BULK = {"AllAlpha": ALPHA, "AllBeta": BETA}


def _gates(default: bool, stage: str, names: str, *, locked: bool = False) -> dict[str, Gate]:
    return {name: Gate(default, stage, locked) for name in names.split()}


GATES: Mapping[str, Gate] = {
    **_gates(
        True,
        GA,
        "SeparateTaintEvictionController OrderedNamespaceDeletion DynamicResourceAllocation DRAAdminAccess "
        "VolumeAttributesClass RecoverVolumeExpansionFailure SELinuxChangePolicy MultiCIDRServiceAllocator "
        "InPlacePodVerticalScaling InOrderInformers",
        locked=True,
    ),
    **_gates(True, GA, "DRAPrioritizedList InformerResourceVersion TaintBasedEvictions"),
    **_gates(
        True,
        BETA,
        "DRADeviceTaints DRAExtendedResource APIServerIdentity PodLevelResources StaleControllerConsistencyDaemonSet "
        "StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet "
        "StatefulSetSemanticRevisionComparison PodDeletionCost DeploymentReplicaSetTerminatingReplicas "
        "MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs HPAConfigurableTolerance "
        "ComponentStatusz ComponentFlagz WatchListClient AtomicFIFO UnlockWhileProcessingFIFO "
        "InOrderInformersBatchProcess ClientsAllowCARotation ClientsAllowTLSCacheGC",
    ),
    **_gates(
        False,
        BETA,
        "DRADeviceTaintRules SELinuxMount ClusterTrustBundle PodCertificateRequest StorageVersionMigrator "
        "MaxUnavailableStatefulSet CoordinatedLeaderElection",
    ),
    **_gates(
        False,
        ALPHA,
        "DRAWorkloadResourceClaims DRAResourcePoolStatus GenericWorkload WorkloadWithJob GangScheduling "
        "PersistentVolumeClaimUnusedSinceTime StorageVersionAPI HPAScaleToZero TaintTolerationComparisonOperators "
        "MutablePVNodeAffinity VolumeLimitScaling ControllerManagerReleaseLeaderElectionLockOnExit ClientsAllowCBOR "
        "ClientsPreferCBOR NativeHistograms",
    ),
}
DEFAULTS: Mapping[str, bool] = MappingProxyType({name: gate.default for name, gate in GATES.items()})


def resolve(settings: Iterable[tuple[str, str]]) -> tuple[Mapping[str, bool], list[str]]:
    """Every gate's state, and what is wrong with the settings (name, or component:name; value).

    AllAlpha and AllBeta switch all gates of their stage but those that are set by name.
    """
    errors: list[str] = []
    by_name: dict[str, bool] = {}
    for qualified, text in settings:
        component, _, name = qualified.rpartition(":")
        if component not in {"", COMPONENT}:
            errors.append(f"component not registered: {component}")
        elif name not in GATES and name not in BULK:
            errors.append(f"unrecognized feature gate: {name}")
        elif not text:
            errors.append(f"missing bool value for {name}")
        else:
            try:
                by_name[name] = parse_bool(text)
            except ValueError as error:
                errors.append(f"invalid value of {name}={text}, err: {error}")
    states = dict(DEFAULTS)
    for bulk, stage in BULK.items():
        if bulk in by_name:
            states |= {name: by_name[bulk] for name, gate in GATES.items() if gate.stage == stage and not gate.locked}
    for name, value in by_name.items():
        gate = GATES.get(name)
        if gate is None:
            continue
        if gate.locked and value != gate.default:
            fixed = str(gate.default).lower()
            errors.append(f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {fixed}")
        states[name] = value
    return MappingProxyType(states), errors
