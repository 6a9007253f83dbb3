"""Effects and errors of --feature-gates."""

from __future__ import annotations

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.options import InvalidOptionsError, Options
from kcm.actors.options.feature_gates import ALWAYS, GATES, WORKING, gates_of, resolve
from kcm.actors.options.known_gates import DEPENDENCIES, STAGES
from kcm.actors.options.later_gates import LATER, REMOVED, later_dependencies
from kcm.actors.options.versions import NEWEST, MinorVersion


def options(*argv: str) -> Options:
    return read_options(argv)


def faults(*argv: str) -> tuple[str, ...]:
    with pytest.raises(InvalidOptionsError) as error:
        options(*argv)
    return error.value.errors


@pytest.mark.parametrize(
    "setting, gate, state",
    [
        ("", "PodDeletionCost", True),
        ("PodDeletionCost=false", "PodDeletionCost", False),
        ("kube:PodDeletionCost=false", "PodDeletionCost", False),
        ("AllBeta=false", "PodDeletionCost", False),
        ("AllBeta=false,PodDeletionCost=true", "PodDeletionCost", True),
        ("PodDeletionCost=true,AllBeta=false", "PodDeletionCost", True),
        ("AllAlpha=true", "PodDeletionCost", True),
        ("AllAlpha=true", "HPAScaleToZero", True),
        ("AllBeta=true", "MaxUnavailableStatefulSet", True),
        ("TaintBasedEvictions=false", "TaintBasedEvictions", False),
        ("VolumeAttributesClass=true", "VolumeAttributesClass", True),
    ],
)
def test_feature_gates_are_switched(setting: str, gate: str, state: bool) -> None:
    gates = options(f"--feature-gates={setting}").feature_gates
    assert gates[gate] is state
    assert gates.keys() == GATES.keys()


@pytest.mark.parametrize(
    "setting, fault",
    [
        ("Foo=true", "unrecognized feature gate: Foo"),
        ("apiserver:PodDeletionCost=true", "component not registered: apiserver"),
        ("PodDeletionCost", "missing bool value for PodDeletionCost"),
        (
            "PodDeletionCost=yes",
            'invalid value of PodDeletionCost=yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
        ),
        (
            "VolumeAttributesClass=false",
            "cannot set feature gate VolumeAttributesClass to false, feature is locked to true",
        ),
    ],
)
def test_feature_gates_that_cannot_be_set_are_named(setting: str, fault: str) -> None:
    assert faults(f"--feature-gates={setting}") == (fault,)


@pytest.mark.parametrize(
    "setting, warning",
    [
        ("PodDeletionCost=false,ComponentStatusz=false,TaintBasedEvictions=false", None),
        ("ImageVolumeWithDigest=false,MaxUnavailableStatefulSet=false", None),  # the default value
        ("ImageVolumeWithDigest=true", "ImageVolumeWithDigest=true"),
        (
            "kube:ImageVolumeWithDigest=true,kube:APIResponseCompression=false",
            "APIResponseCompression=false, ImageVolumeWithDigest=true",
        ),
        ("KubeletInUserNamespace=true", "KubeletInUserNamespace=true"),  # of another component
        ("ControllerManagerReleaseLeaderElectionLockOnExit=true", None),
        (
            "ControllerManagerReleaseLeaderElectionLockOnExit=false",
            "ControllerManagerReleaseLeaderElectionLockOnExit=false",
        ),
        ("StaleControllerConsistencyReplicaSet=false", "StaleControllerConsistencyReplicaSet=false"),
        ("StaleControllerConsistencyReplicaSet=true", None),
        ("StaleControllerConsistencyJob=true", None),
        ("AllBeta=true,MaxUnavailableStatefulSet=false", "6 of AllBeta"),
        ("AllAlpha=true", "40 of AllAlpha"),  # all except for implemented gates and the release of the lease
        (
            "AllAlpha=false,AllBeta=false,ImageVolumeWithDigest=true",
            "ImageVolumeWithDigest=true, 1 of AllAlpha, 78 of AllBeta",
        ),
    ],
)
def test_settings_without_effect_cause_one_warning(setting: str, warning: str | None) -> None:
    lines = [line for line in options(f"--feature-gates={setting}").warnings if "without effect" in line]
    assert lines == ([f"Feature gates without effect here: {warning}"] if warning is not None else [])


def test_every_gate_of_the_release_is_known_once() -> None:
    names = [name for stage in STAGES for name in stage.names.split()]
    assert len(names) == len(set(names)) == len(GATES) - 1 == 240
    assert GATES.keys() | gates_of(NEWEST).keys() >= WORKING | ALWAYS
    assert not [name for name in WORKING | ALWAYS if name in GATES and GATES[name].locked]


def test_deprecated_and_ga_gates_cause_warnings() -> None:
    assert options("--feature-gates=DRAPrioritizedList=false,WindowsHostNetwork=false").warnings[:2] == (
        "Setting GA feature gate DRAPrioritizedList=false. It will be removed in a future release.",
        "Setting deprecated feature gate WindowsHostNetwork=false. It will be removed in a future release.",
    )


@pytest.mark.parametrize(
    ("settings", "errors"),
    [
        (
            "WorkloadWithJob=true",
            ["WorkloadWithJob is enabled, but depends on features that are disabled: [GenericWorkload]"],
        ),
        ("WorkloadWithJob=true,GenericWorkload=true", []),
        (
            "WorkloadAwarePreemption=true,GenericWorkload=true",
            ["WorkloadAwarePreemption is enabled, but depends on features that are disabled: [GangScheduling]"],
        ),
        ("AllAlpha=true", []),
        (
            "kube:AllBeta=true,HPAScaleToZero=true",
            ["set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"],
        ),
    ],
)
def test_gate_with_disabled_dependencies_is_refused(settings: str, errors: list[str]) -> None:
    assert resolve([tuple(each.split("=")) for each in settings.split(",")])[1] == errors  # type: ignore[misc]


@pytest.mark.parametrize(
    ("release", "states"),
    [
        (
            "1.37",
            {
                "HPAScaleToZero": True,
                "ClusterTrustBundle": True,
                "PodCertificateRequest": True,
                "MaxUnavailableStatefulSet": True,
                "StatefulSetRecreateStrategy": False,
            },
        ),
        ("1.36", {"HPAConfigurableTolerance": True, "WatchListClient": True, "ComponentStatusz": True}),
        ("1.35", {"HPAConfigurableTolerance": True, "WatchListClient": True, "ComponentStatusz": False}),
        ("1.34", {"HPAConfigurableTolerance": False, "WatchListClient": False, "PodLevelResources": True}),
        ("1.33", {"HPAConfigurableTolerance": False, "PodLevelResources": False, "OrderedNamespaceDeletion": True}),
    ],
)
def test_gates_have_the_defaults_of_the_emulated_release(release: str, states: dict[str, bool]) -> None:
    gates = options(f"--emulated-version={release}").feature_gates
    assert {name: gates[name] for name in states} == states


def test_gate_that_is_locked_in_this_release_can_be_set_in_the_emulated_one() -> None:
    assert faults("--feature-gates=OrderedNamespaceDeletion=false")
    assert not options("--emulated-version=1.33", "--feature-gates=OrderedNamespaceDeletion=false").feature_gates[
        "OrderedNamespaceDeletion"
    ]


def test_gate_that_the_emulated_release_does_not_have_cannot_be_set() -> None:
    assert faults("--emulated-version=1.33", "--feature-gates=WorkloadWithJob=false") == (
        (
            "cannot set feature gate WorkloadWithJob to false, feature is PreAlpha at emulated version 1.33, "
            "min compatibility version 1.33"
        ),
    )


def test_gates_that_a_later_release_removed_are_unrecognized() -> None:
    (fault,) = faults("--emulated-version=1.37", "--feature-gates=SidecarContainers=true")
    assert fault == "unrecognized feature gate: SidecarContainers"
    (fault,) = faults("--feature-gates=HPAGeneration=true")
    assert fault == "unrecognized feature gate: HPAGeneration"


def test_gates_of_a_later_release_have_stages_and_dependencies() -> None:
    (fault,) = faults("--emulated-version=1.37", "--feature-gates=HPAConfigurableTolerance=false")
    assert fault == "cannot set feature gate HPAConfigurableTolerance to false, feature is locked to true"
    (fault,) = faults("--emulated-version=1.37", "--feature-gates=PodGroupPreemptionPolicy=true")
    assert fault == (
        "PodGroupPreemptionPolicy is enabled, but depends on features that are disabled: [GenericWorkload]"
    )
    off = options("--emulated-version=1.37", "--feature-gates=PodCertificateRequest=false")
    assert not off.feature_gates["PodCertificateRequest"]


def test_release_that_was_not_compared_causes_a_warning() -> None:
    assert options("--emulated-version=1.37").warnings == (
        "Release 1.37 is emulated from its source; it has not been compared with its programs",
    )


def test_later_gates_exist_and_depend_on_gates_of_their_release() -> None:
    for release, gone in REMOVED.items():
        assert GATES.keys() >= gone
        gates, dependencies = gates_of(MinorVersion(*release)), later_dependencies(release)
        assert gates.keys() >= {*dependencies, *(other for others in dependencies.values() for other in others)}
        names = [name for stage in LATER[release] for name in stage.names.split()]
        assert len(names) == len(set(names))
        assert not gone & set(names)


def test_alpha_features_of_an_emulated_release_cause_a_warning() -> None:
    assert options("--emulated-version=1.35", "--feature-gates=HPAScaleToZero=true").warnings == (
        "component has alpha features enabled in emulated version, this is unsupported: features=[HPAScaleToZero]",
    )


@pytest.mark.parametrize(("release", "number"), [("1.36", 243), ("1.35", 213), ("1.34", 192), ("1.33", 173)])
def test_features_of_the_emulated_release_are_reported(release: str, number: int) -> None:
    chosen = options(f"--emulated-version={release}")
    assert len(list(chosen.features)) == number


def test_bulk_settings_are_reported_as_features() -> None:
    found = {name: (stage, state) for name, stage, state in options("--feature-gates=AllBeta=true").features}
    assert (found["AllAlpha"], found["AllBeta"]) == (("ALPHA", False), ("BETA", True))


def test_dependencies_are_gates_and_hold_by_default() -> None:
    assert GATES.keys() >= {*DEPENDENCIES, *(other for others in DEPENDENCIES.values() for other in others)}
    assert resolve([])[1] == []
