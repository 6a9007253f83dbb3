"""Cache of pod specs without errors and warnings, which need not be validated again."""

import pytest

from kcm.runtime.apiserver.kinds.pod_spec.clean_specs import LONGEST_KEPT, MOST_KEPT, CleanSpecs, key_of
from kcm.runtime.apiserver.kinds.pod_spec.defaults import default_pod_spec
from kcm.runtime.apiserver.kinds.pod_spec.validation import validate_pod_spec
from kcm.runtime.apiserver.kinds.pod_spec.warnings import warnings_of_pod

DRAWN, OTHER = "kube-api-access-bcdfg", "kube-api-access-24568"


def spec(*volumes: str, mounted: str = DRAWN, image: str = "i", **fields: object) -> dict[str, object]:
    """Return a pod spec with these volumes and one container.

    mounted: volume that the container mounts
    """
    mounts = [{"name": mounted, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
    made: dict[str, object] = {
        "containers": [{"name": "c", "image": image, "volumeMounts": mounts}],
        "volumes": [{"name": name, "emptyDir": {}} for name in volumes],
        **fields,
    }
    default_pod_spec(made)
    return made


def test_specs_that_differ_only_in_generated_names_share_an_entry():
    assert key_of(spec(DRAWN, mounted=DRAWN)) == key_of(spec(OTHER, mounted=OTHER))


@pytest.mark.parametrize(
    "other",
    [
        spec(DRAWN, mounted=OTHER),
        spec(DRAWN, DRAWN),
        spec(DRAWN, OTHER),
        spec("kube-api-access-aeiou", mounted="kube-api-access-aeiou"),
        spec("kube-api-access-*", mounted="kube-api-access-*"),
        spec("kube-api-access-\x00", mounted="kube-api-access-\x00"),
        spec("\x00", mounted="\x00"),
        spec(DRAWN, image="j"),
        spec(DRAWN, hostname="h"),
    ],
)
def test_specs_that_differ_otherwise_do_not_share_an_entry(other):
    assert key_of(other) != key_of(spec(DRAWN))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (spec(DRAWN, DRAWN), "spec.volumes[1].name"),
        (spec(DRAWN, mounted=OTHER), "spec.containers[0].volumeMounts[0].name"),
        (spec("kube-api-access-*", mounted="kube-api-access-*"), "spec.volumes[0].name"),
        (spec(DRAWN, hostname="*"), "spec.hostname"),
    ],
)
def test_invalid_spec_is_reported_each_time_beside_cached_specs(wrong, field):
    assert validate_pod_spec(spec(DRAWN), "spec") == []
    assert validate_pod_spec(spec(OTHER, mounted=OTHER), "spec") == []
    for _ in range(2):
        assert field in [error.field for error in validate_pod_spec(wrong, "spec")]


def test_warnings_are_repeated_and_annotations_are_always_checked():
    remarkable = spec(DRAWN, nodeSelector={"beta.kubernetes.io/os": "linux"})
    for _ in range(2):
        assert [*warnings_of_pod({"metadata": {}, "spec": spec(DRAWN)})] == []
        assert len([*warnings_of_pod({"metadata": {}, "spec": remarkable})]) == 1
        annotated = {"annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}}
        assert len([*warnings_of_pod({"metadata": annotated, "spec": spec(DRAWN)})]) == 1


def test_cache_is_bounded_and_excludes_long_specs():
    kept = CleanSpecs()
    kept.add(b"x" * (LONGEST_KEPT + 1))
    assert b"x" * (LONGEST_KEPT + 1) not in kept
    keys = [str(number).encode() for number in range(MOST_KEPT + 1)]
    for key in keys:
        kept.add(key)
    assert keys[-1] in kept
    assert sum(key in kept for key in keys) <= MOST_KEPT
