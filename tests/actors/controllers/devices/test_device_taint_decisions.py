"""Tests of device taint eviction: its decisions as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.controllers.devices.device_taint_eviction.evictions import (
    Eviction,
    PoolSlice,
    TaintOrigin,
    TaintRule,
    claim_eviction,
    evicting_taints,
    newest,
    pod_eviction,
)
from kcm.actors.controllers.devices.device_taint_eviction.rule_status import (
    Effects,
    differs,
    rule_condition,
    wait_seconds,
)
from kcm.protocols.device_taints import (
    AllocatedDevice,
    DeviceSelector,
    DeviceTaint,
    RuleFacts,
    allocated_devices,
    rule_facts,
    slice_facts,
    tolerates_device_taint,
)
from kcm.protocols.objects import Object
from tests.actors.controllers.devices.taint_scene import DRIVER, KEY, POOL, VALUE, toleration

TAINT = DeviceTaint(KEY, VALUE, "NoExecute", 100.0)


# Tolerations and times.


@pytest.mark.parametrize(
    ("fields", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": KEY}, True),
        ({"operator": "Exists", "key": "other"}, False),
        ({"operator": "Exists", "effect": "NoSchedule"}, False),
        ({"operator": "Equal", "key": KEY, "value": VALUE}, True),
        ({"operator": "Equal", "key": KEY, "value": "other"}, False),
        ({"operator": "Equal", "value": VALUE}, True),
        ({"key": KEY, "value": VALUE}, True),
        ({"key": KEY}, False),
        ({"operator": "Near"}, False),
    ],
)
def test_toleration_matches_a_taint_by_effect_key_and_value(fields: Object, tolerates: bool) -> None:
    assert tolerates_device_taint(fields, TAINT) is tolerates


@pytest.mark.parametrize(
    ("tolerations", "added", "when"),
    [
        ([], 100.0, 100.0),
        ([], None, None),
        ([toleration(60)], None, None),
        ([toleration()], 100.0, None),
        ([toleration(60)], 100.0, 160.0),
        ([toleration(-5)], 100.0, 100.0),
        ([toleration(0)], 100.0, 100.0),
        ([toleration(60), toleration(30)], 100.0, 130.0),
        ([toleration(20, key="other"), toleration(60)], 100.0, 160.0),
        ([toleration(60), toleration()], 100.0, None),
        ([{"operator": "Exists", "tolerationSeconds": 60}], 100.0, 100.0),  # all effects, but not NoExecute by name
    ],
)
def test_time_of_an_eviction_is_counted_from_the_taint(tolerations: Any, added: float | None, when: Any) -> None:
    device = AllocatedDevice(DRIVER, POOL, "instance", tuple(tolerations))
    found = claim_eviction([(device, TaintOrigin("r", "1"), TAINT._replace(added=added))])
    assert (None if found is None else found.when) == when


def test_claim_is_evicted_at_the_earliest_time_of_its_devices_for_all_their_taints() -> None:
    impatient, patient = AllocatedDevice("a", "b", "c"), AllocatedDevice("a", "b", "d", (toleration(60),))
    in_slice = TaintOrigin("", "", "a", "b", "c", 1, "s")
    rule, other = TaintOrigin("z", "1"), TaintOrigin("e", "2")
    tainted = [(patient, in_slice, TAINT), (patient, rule, TAINT), (impatient, rule, TAINT), (patient, other, TAINT)]
    assert claim_eviction(tainted) == Eviction(100.0, (other, rule, in_slice))
    assert claim_eviction(tainted[:1]) == Eviction(160.0, (in_slice,))
    assert claim_eviction([]) is None
    assert str(in_slice) == "ResourceSlice s a/b/c taint #1"
    assert claim_eviction(tainted).reason.startswith("DeviceTaintRule e, DeviceTaintRule z, ")  # type: ignore[union-attr]


def test_pod_is_evicted_at_the_earliest_time_of_its_claims_for_the_reasons_of_all() -> None:
    first, second = TaintOrigin("a", "1"), TaintOrigin("b", "2")
    assert pod_eviction([None, Eviction(5.0, (second,)), Eviction(3.0, (first, second))]) == Eviction(
        3.0, (first, second)
    )
    assert pod_eviction([None, None]) is None
    assert pod_eviction([]) is None


def slice_(name: str, *devices: Object, generation: int = 1) -> PoolSlice:
    pool = {"name": POOL, "generation": generation, "resourceSliceCount": 1}
    return PoolSlice(name, slice_facts({"spec": {"driver": DRIVER, "pool": pool, "devices": list(devices)}}))


BROKEN = {"name": "instance", "taints": [{"key": "a", "effect": "None"}, {"key": KEY, "effect": "NoExecute"}]}


def test_only_newest_slices_of_a_pool_count() -> None:
    slices = [slice_("b", {"name": "x"}, generation=2), slice_("c", BROKEN), slice_("a", BROKEN, generation=2)]
    assert [found.name for found in newest(slices)] == ["a", "b"]
    assert newest([]) == []


@pytest.mark.parametrize(
    ("selector", "effect", "selected"),
    [
        (DeviceSelector(None, None, None), "NoExecute", True),
        (None, "NoExecute", False),
        (DeviceSelector(DRIVER, POOL, "instance"), "NoExecute", True),
        (DeviceSelector("other", None, None), "NoExecute", False),
        (DeviceSelector(None, "other", None), "NoExecute", False),
        (DeviceSelector(None, None, "other"), "NoExecute", False),
        (DeviceSelector(None, None, None), "NoSchedule", False),
        (DeviceSelector(None, None, None), "None", False),
    ],
)
def test_rule_taints_a_device_by_name(selector: DeviceSelector | None, effect: str, selected: bool) -> None:
    rule = TaintRule("r", "1", RuleFacts(selector, TAINT._replace(effect=effect)))
    found = list(evicting_taints(AllocatedDevice(DRIVER, POOL, "instance"), [], [rule]))
    assert found == ([(TaintOrigin("r", "1"), rule.facts.taint)] if selected else [])


def test_slice_taints_only_its_own_devices() -> None:
    slices = [slice_("s", {"name": "other"}, BROKEN)]
    (found,) = evicting_taints(AllocatedDevice(DRIVER, POOL, "instance"), slices, [])
    assert found[0] == TaintOrigin("", "", DRIVER, POOL, "instance", 1, "s")
    assert list(evicting_taints(AllocatedDevice(DRIVER, POOL, "other"), slices, [])) == []


@pytest.mark.parametrize(
    "malformed",
    [
        lambda: slice_facts({"spec": {"devices": [{"name": 3}]}}),
        lambda: slice_facts({"spec": {"pool": {"generation": "1"}}}),
        lambda: rule_facts({"spec": {"taint": {"timeAdded": "yesterday"}}}),
        lambda: allocated_devices({"status": {"allocation": {"devices": {"results": [{"driver": 1}]}}}}),
    ],
)
def test_malformed_object_has_no_facts(malformed: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="is"):
        malformed()


# The condition of a rule.

FINAL = (
    "if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger "
    "an update."
)
NO_PODS = "0 pods would be evicted in 0 different namespaces"
TWO_EVICTED = "2 pods evicted since starting the controller."


@pytest.mark.parametrize(
    ("effect", "effects", "evicted", "status", "reason", "message"),
    [
        ("NoExecute", Effects(), 0, "False", "NotStarted", ""),
        ("NoExecute", Effects(1, 1), 0, "True", "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."),
        (
            "NoExecute",
            Effects(3, 2),
            1,
            "True",
            "PodsPendingEviction",
            "3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller.",
        ),
        ("NoExecute", Effects(), 1, "False", "Completed", "1 pod evicted since starting the controller."),
        ("NoExecute", Effects(), 2, "False", "Completed", TWO_EVICTED),
        (
            "None",
            Effects(1, 1, published=3, allocated=1),
            0,
            "False",
            "NoEffect",
            f"3 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace {FINAL}",
        ),
        (
            "None",
            Effects(0, 0, published=1, allocated=0),
            2,
            "False",
            "NoEffect",
            f"1 published device selected. 0 allocated devices selected. {NO_PODS} {FINAL} {TWO_EVICTED}",
        ),
        ("NoSchedule", Effects(), 0, "False", "OtherEffect", "Eviction only happens for the NoExecute effect."),
    ],
)
def test_condition_describes_what_a_rule_evicts(
    effect: str, effects: Effects, evicted: int, status: str, reason: str, message: str
) -> None:
    found = rule_condition(effect, effects, evicted=evicted, generation=2, now=0.0)
    assert (found["status"], found["reason"], found["message"]) == (status, reason, message)
    assert (found["observedGeneration"], found["lastTransitionTime"]) == (2, "1970-01-01T00:00:00Z")
    assert differs(found, None)
    assert not differs(found, {**found, "lastTransitionTime": "2020-01-01T00:00:00Z"})
    assert differs(found, {**found, "message": "other"})


@pytest.mark.parametrize(
    ("condition", "seconds"),
    [
        (None, 0.0),
        ({"observedGeneration": 1, "lastTransitionTime": "1970-01-01T00:01:40Z"}, 0.0),  # of another generation
        ({"observedGeneration": 2, "lastTransitionTime": "1970-01-01T00:01:40Z"}, 10.0),
        ({"observedGeneration": 2, "lastTransitionTime": "1970-01-01T00:01:36Z"}, 6.0),
        ({"observedGeneration": 2, "lastTransitionTime": "1970-01-01T00:01:30Z"}, 0.0),
        ({"observedGeneration": 2, "lastTransitionTime": "1970-01-01T00:00:00Z"}, 0.0),
        ({"observedGeneration": 2, "lastTransitionTime": "1970-01-01T01:00:00Z"}, 0.0),  # by another clock
        ({"observedGeneration": 2}, 0.0),
    ],
)
def test_condition_is_updated_at_most_every_ten_seconds(condition: Object | None, seconds: float) -> None:
    assert wait_seconds(condition, 2, now=100.0) == seconds
