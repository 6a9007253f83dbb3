"""Feature gates: the known gates, those that have an effect in kcm, and the resolution of --feature-gates.

TaintBasedEvictions was removed upstream before 1.36: true is today's behaviour, and false evicts without taints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from kcm.actors.options.known_gates import ALPHA, BETA, DEPENDENCIES, GA, PRE_ALPHA, STAGES
from kcm.actors.options.versions import BINARY, COMPONENT, CURRENT, EffectiveVersions, MinorVersion
from kcm.runtime.flags.values import parse_bool


class Gate(Struct, frozen=True):
    """Known feature gate."""

    default: bool
    stage: str  # ALPHA, BETA, GA or DEPRECATED; PRE_ALPHA if the emulated release does not have the gate
    locked: bool = False  # can only be set to its default


BULK = {"AllAlpha": ALPHA, "AllBeta": BETA}
GATES: Mapping[str, Gate] = MappingProxyType(
    {
        "TaintBasedEvictions": Gate(True, GA),
        **{name: Gate(stage.default, stage.stage, stage.locked) for stage in STAGES for name in stage.names.split()},
    }
)
DEFAULTS: Mapping[str, bool] = MappingProxyType({name: gate.default for name, gate in GATES.items()})
# Gates that enable or disable something in kcm. Each has a test of both values.
WORKING = frozenset(
    {
        "ClientsAllowCARotation",
        "CloudControllerManagerWatchBasedRoutesReconciliation",
        "ClusterTrustBundle",
        "ComponentFlagz",
        "ComponentStatusz",
        "CoordinatedLeaderElection",
        "DRADeviceTaintRules",
        "DRADeviceTaints",
        "DRAResourcePoolStatus",
        "DRAWorkloadResourceClaims",
        "DeploymentReplicaSetTerminatingReplicas",
        "HPAConfigurableTolerance",
        "HPAScaleToZero",
        "LoggingAlphaOptions",
        "MutableSchedulingDirectivesForSuspendedJobs",
        "MaxUnavailableStatefulSet",
        "PersistentVolumeClaimUnusedSinceTime",
        "PodCertificateRequest",
        "PodDeletionCost",
        "PodLevelResources",
        "TaintBasedEvictions",
        "TaintTolerationComparisonOperators",
        "WatchListClient",
        "WorkloadWithJob",
    }
)
# Gates whose behaviour is always on in kcm: the lease is released at the end, a controller always sees its own writes,
# and revisions are compared by their meaning.
ALWAYS = frozenset(
    {
        "ControllerManagerReleaseLeaderElectionLockOnExit",
        "StaleControllerConsistencyDaemonSet",
        "StaleControllerConsistencyHPA",  # of 1.37
        "StaleControllerConsistencyJob",
        "StaleControllerConsistencyReplicaSet",
        "StaleControllerConsistencyStatefulSet",
        "StatefulSetSemanticRevisionComparison",
    }
)


def gates_of(release: MinorVersion) -> Mapping[str, Gate]:
    """Return the known gates as this release has them."""
    if release == BINARY:
        return GATES
    if release > BINARY:
        from kcm.actors.options.later_gates import LATER, REMOVED

        later: dict[str, Gate] = {}
        for newer in (version for version in LATER if version <= release):
            later |= {
                name: Gate(stage.default, stage.stage, stage.locked)
                for stage in LATER[newer]
                for name in stage.names.split()
            }
        gone = {name for newer, names in REMOVED.items() if newer <= release for name in names}
        return MappingProxyType({name: gate for name, gate in {**GATES, **later}.items() if name not in gone})
    from kcm.actors.options.earlier_gates import EARLIER  # few runs emulate a release

    gates = dict(GATES)
    for earlier, stages in sorted(EARLIER.items(), reverse=True):
        if earlier >= release:
            gates |= {
                name: Gate(stage.default, stage.stage, stage.locked) for stage in stages for name in stage.names.split()
            }
    return MappingProxyType(gates)


def resolve(
    settings: Iterable[tuple[str, str]], versions: EffectiveVersions = CURRENT
) -> tuple[Mapping[str, bool], list[str]]:
    """Return the state of every gate, and the errors in the settings: pairs of (name or component:name, value).

    versions: the gates have the stages and defaults of the emulated release.

    AllAlpha and AllBeta set all gates of their stage except those that are set by name.
    """
    gates = gates_of(versions.emulation)
    errors: list[str] = []
    by_name: dict[str, bool] = {}
    settings = list(settings)
    if len({qualified.rpartition(":")[0] for qualified, _ in settings} & {"", COMPONENT}) > 1:
        errors.append("set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")
    for qualified, text in settings:
        component, _, name = qualified.rpartition(":")
        if component not in {"", COMPONENT}:
            errors.append(f"component not registered: {component}")
        elif name not in gates and name not in BULK:
            errors.append(f"unrecognized feature gate: {name}")
        elif not text:
            errors.append(f"missing bool value for {name}")
        else:
            try:
                by_name[name] = parse_bool(text)
            except ValueError as error:
                errors.append(f"invalid value of {name}={text}, err: {error}")
    states = {name: gate.default for name, gate in gates.items()}
    for bulk, stage in BULK.items():
        if bulk in by_name:
            states |= {name: by_name[bulk] for name, gate in gates.items() if gate.stage == stage and not gate.locked}
    for name, value in by_name.items():
        gate = gates.get(name)
        if gate is None:
            continue
        if gate.stage == PRE_ALPHA:
            errors.append(
                f"cannot set feature gate {name} to {str(value).lower()}, feature is PreAlpha at emulated version "
                f"{versions.emulation}, min compatibility version {versions.min_compatibility}"
            )
            continue
        if gate.locked and value != gate.default:
            fixed = str(gate.default).lower()
            errors.append(f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to {fixed}")
        states[name] = value
    if not errors:
        errors += _disabled_dependencies(states, _dependencies(versions.emulation))
    return MappingProxyType(states), errors


def _dependencies(release: MinorVersion) -> Mapping[str, tuple[str, ...]]:
    """Return what each gate of a release depends on."""
    if release <= BINARY:
        return DEPENDENCIES
    from kcm.actors.options.later_gates import later_dependencies

    return later_dependencies(release)


def _disabled_dependencies(states: Mapping[str, bool], dependencies: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return an error for each gate that is on though a gate that it depends on is off."""
    found = []
    for name, others in dependencies.items():
        missing = [other for other in others if not states[other]]
        if states[name] and missing:
            found.append(f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]")
    return found


def features(
    states: Mapping[str, bool], settings: Iterable[tuple[str, str]], release: MinorVersion = BINARY
) -> Iterator[tuple[str, str, bool]]:
    """Yield name, stage and state of each gate that the release has, and of AllAlpha and AllBeta.

    The stage of a generally available feature is "", as in metrics. settings: valid settings.
    """
    gates = gates_of(release)
    for name, is_enabled in states.items():
        stage = gates[name].stage
        if stage != PRE_ALPHA:
            yield name, "" if stage == GA else stage, is_enabled
    given = {qualified.rpartition(":")[2]: text for qualified, text in settings}
    for name, stage in BULK.items():
        yield name, stage, name in given and parse_bool(given[name])


def without_effect(
    settings: Iterable[tuple[str, str]], states: Mapping[str, bool], gates: Mapping[str, Gate] = GATES
) -> list[str]:
    """Return the settings without effect in kcm: "name=value", or "3 of AllAlpha" for a number of gates.

    settings: valid settings.
    states: the state of every gate that results from them.
    gates: the gates of the emulated release.
    """
    named = {qualified.rpartition(":")[2] for qualified, _ in settings}
    parts = [
        f"{name}={str(states[name]).lower()}" for name in sorted(named - BULK.keys()) if _is_idle(name, states, gates)
    ]
    for bulk in sorted(named & BULK.keys()):
        switched = [name for name, gate in gates.items() if gate.stage == BULK[bulk] and name not in named]
        idle = sum(1 for name in switched if _is_idle(name, states, gates))
        if idle:
            parts.append(f"{idle} of {bulk}")
    return parts


def _is_idle(name: str, states: Mapping[str, bool], gates: Mapping[str, Gate]) -> bool:
    """Report whether the requested value differs from the effective one."""
    if name in ALWAYS:
        return not states[name]
    # What 1.36 does not have is as in the release that has it first.
    return name not in WORKING and states[name] != DEFAULTS.get(name, gates[name].default)
