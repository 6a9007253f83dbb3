"""Tests of device taint eviction: upstream's cases in a simulated cluster, and its decisions as tables.

Source of the cases: kubernetes v1.36 pkg/controller/devicetainteviction/device_taint_eviction_test.go (TestHandlers).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.devices.device_taint_eviction import SPEC
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
from kcm.actors.controllers.devices.device_taint_eviction.spec import EVICTION_DURATION, EVICTIONS
from kcm.actors.controllers.shared.pod_disruption import DISRUPTION_TARGET
from kcm.actors.options import InvalidOptionsError
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.conditions import find_condition
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
from kcm.protocols.resources import DEVICE_TAINT_RULES, NAMESPACES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload
from tests.actors.controllers.devices.taint_scene import (
    CANCELLED,
    DRIVER,
    GROUPS,
    KEY,
    MARKED,
    POOL,
    STATUS_PERIOD,
    VALUE,
    WITHOUT_RULES,
    Scene,
)

TAINT = DeviceTaint(KEY, VALUE, "NoExecute", 100.0)
NEVER = pytest.approx(0, abs=0.5)  # seconds: at once


def toleration(seconds: int | None = None, **fields: Any) -> Object:
    found: Object = {"operator": "Exists", "effect": "NoExecute", **fields}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


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


# Upstream's cases. Each prepares a scene; then, after a while, the pod p is evicted or not.


@pytest.fixture
def scene(cluster: SimulatedCluster) -> Scene:
    return Scene(cluster)


def evict(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim()


def evict_after_scheduling(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod(node="")
    scene.claim()
    scene.run_for(5.0)
    assert scene.evictions() == {}
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": POOL}}
    assert scene.cluster.request("POST", "/api/v1/namespaces/default/pods/p/binding", body).status == 201


def evict_from_template(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod(template=True)
    scene.claim(owner="p")


def evict_on_toleration_mismatch(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(tolerations=[toleration(60, key=f"{KEY}-other")])


def evict_on_partial_toleration(scene: Scene) -> None:
    scene.slice([scene.taint(), scene.taint(key=f"{KEY}-other")])
    scene.pod()
    scene.claim(tolerations=[toleration(key=KEY)])


def evict_when_the_pod_is_replaced(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(consumers=[])
    scene.run_for(5.0)
    assert scene.evictions() == {}
    scene.cluster.delete(PODS, "default/p", grace_seconds=0)
    scene.pod()
    scene.claim()


def evict_when_the_claim_is_replaced(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod(template=True)
    scene.pod("another", claims=())
    scene.claim(owner="another")
    scene.run_for(5.0)
    assert scene.evictions() == {}
    scene.cluster.delete(RESOURCE_CLAIMS, "default/c")
    scene.claim(owner="p")


def evict_when_a_taint_is_changed(scene: Scene) -> None:
    """The new taint is not tolerated."""
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(tolerations=[toleration(3600, operator="Equal", key=KEY, value=VALUE)])
    scene.run_for(5.0)
    assert scene.evictions() == {}
    scene.slice([scene.taint(value=f"{VALUE}-other")])


def evict_by_rule(scene: Scene) -> None:
    scene.pod()
    scene.claim()
    scene.rule(scene.taint())


def evict_by_rule_for_a_device(scene: Scene) -> None:
    scene.rule(scene.taint(), device="instance")
    scene.pod()
    scene.claim()


def evict_when_an_effect_is_changed(scene: Scene) -> None:
    scene.pod()
    scene.claim()
    scene.rule(scene.taint("None"))
    scene.run_for(5.0)
    assert scene.evictions() == {}
    scene.cluster.merge(DEVICE_TAINT_RULES, "evict", {"spec": {"taint": {"effect": "NoExecute"}}})


def evict_when_a_slice_of_a_newer_generation_is_tainted(scene: Scene) -> None:
    scene.slice()
    scene.pod()
    scene.claim()
    scene.slice([scene.taint()], name="newer", generation=2)


@pytest.mark.parametrize(
    "prepare",
    [
        evict,
        evict_after_scheduling,
        evict_from_template,
        evict_on_toleration_mismatch,
        evict_on_partial_toleration,
        evict_when_the_pod_is_replaced,
        evict_when_the_claim_is_replaced,
        evict_when_a_taint_is_changed,
        evict_by_rule,
        evict_by_rule_for_a_device,
        evict_when_an_effect_is_changed,
        evict_when_a_slice_of_a_newer_generation_is_tainted,
    ],
)
def test_pod_is_evicted_once(scene: Scene, prepare: Callable[[Scene], None]) -> None:
    prepare(scene)
    scene.run_for(120.0)
    assert list(scene.evictions()) == ["p"]
    assert scene.events() == [MARKED]
    pod = scene.cluster.get(PODS, "default/p") or {}
    condition = find_condition(pod["status"]["conditions"], DISRUPTION_TARGET) or {}
    assert (condition["status"], condition["reason"]) == ("True", "DeletionByDeviceTaintManager")
    assert condition["message"] == "Device Taint manager: deleting due to NoExecute taint"


def spare_untainted(scene: Scene) -> None:
    scene.slice()
    scene.pod()
    scene.claim()
    scene.run_for(5.0)
    scene.slice()


def spare_unscheduled(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod(node="")
    scene.claim()


def spare_template_without_status(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod(template=True, generated="")
    scene.claim(owner="p")


def spare_template_without_claim(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod(template=True, generated=None)
    scene.claim(owner="p")


def spare_other_device(scene: Scene) -> None:
    scene.slice([scene.taint()], device="other")
    scene.pod()
    scene.claim()


def spare_pod_that_is_no_consumer(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(consumers=[{"resource": "pods", "name": "p", "uid": "another"}])


def spare_pod_that_does_not_own_the_claim(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod(template=True)
    scene.pod("another", claims=())
    scene.claim(owner="another")


def spare_on_toleration(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(tolerations=[toleration(60), toleration()])


def spare_on_other_effects(scene: Scene) -> None:
    scene.slice([scene.taint("None"), scene.taint("NoSchedule")])
    scene.pod()
    scene.claim()


def spare_when_the_taint_is_of_an_older_generation(scene: Scene) -> None:
    scene.slice(name="newer", generation=2)
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim()


def spare_while_unallocated(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(allocated=False)


def spare_devices_that_a_rule_does_not_select(scene: Scene) -> None:
    scene.pod()
    scene.claim()
    scene.rule(scene.taint(), driver="other")


@pytest.mark.parametrize(
    "prepare",
    [
        spare_untainted,
        spare_unscheduled,
        spare_template_without_status,
        spare_template_without_claim,
        spare_other_device,
        spare_pod_that_is_no_consumer,
        spare_pod_that_does_not_own_the_claim,
        spare_on_toleration,
        spare_on_other_effects,
        spare_when_the_taint_is_of_an_older_generation,
        spare_while_unallocated,
        spare_devices_that_a_rule_does_not_select,
    ],
)
def test_pod_is_not_evicted(scene: Scene, prepare: Callable[[Scene], None]) -> None:
    prepare(scene)
    scene.run_for(120.0)
    assert (scene.evictions(), scene.events()) == ({}, [])


def test_pod_group_consumer_protects_no_pod_from_eviction_if_the_gate_is_enabled(cluster: SimulatedCluster) -> None:
    cluster.serve(pod_group.RESOURCE, workload.RESOURCE)
    scene = Scene(cluster, GROUPS)
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "5678"}
    scene.slice([scene.taint()])
    scene.pod(schedulingGroup={"podGroupName": "g"})
    scene.pod("bystander", claims=(), schedulingGroup={"podGroupName": "g"})
    scene.claim(consumers=[group])
    scene.run_for(30.0)
    assert list(scene.evictions()) == ["p"]


def test_pod_group_consumer_is_ignored_if_the_gate_is_disabled(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod(schedulingGroup={"podGroupName": "g"})
    scene.claim(consumers=[{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "5678"}])
    scene.run_for(30.0)
    assert scene.evictions() == {}


# Cancelled evictions.


def remove_taint(scene: Scene) -> None:
    scene.slice()


def reduce_taint(scene: Scene) -> None:
    scene.slice([scene.taint("NoSchedule")])


def replace_slice(scene: Scene) -> None:
    scene.cluster.delete(RESOURCE_SLICES, "s")
    scene.slice(name="s-updated", generation=2)


def remove_slice(scene: Scene) -> None:
    scene.cluster.delete(RESOURCE_SLICES, "s")


def deallocate(scene: Scene) -> None:
    scene.claim(allocated=False)


def remove_claim(scene: Scene) -> None:
    scene.cluster.delete(RESOURCE_CLAIMS, "default/c")


def release_claim(scene: Scene) -> None:
    scene.cluster.merge(RESOURCE_CLAIMS, "default/c", {"status": {"reservedFor": None}}, subresource="status")


@pytest.mark.parametrize(
    "change", [remove_taint, reduce_taint, replace_slice, remove_slice, deallocate, remove_claim, release_claim]
)
def test_eviction_is_cancelled(scene: Scene, change: Callable[[Scene], None]) -> None:
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(tolerations=[toleration(60)])
    scene.run_for(10.0)
    change(scene)
    scene.run_for(120.0)
    assert (scene.evictions(), scene.events()) == ({}, [CANCELLED])


def test_deletion_of_the_pod_cancels_its_eviction_without_an_event(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(tolerations=[toleration(60)])
    scene.run_for(10.0)
    scene.cluster.delete(PODS, "default/p", grace_seconds=0)
    scene.run_for(120.0)
    assert (scene.evictions(), scene.events()) == ({}, [])


# Times.


def test_pod_is_evicted_when_its_toleration_expires(scene: Scene) -> None:
    scene.slice([scene.taint(), scene.taint(key="second", at=100.0)])
    scene.pod()
    scene.claim(tolerations=[toleration(60), toleration(20, key="second"), toleration(90, key=KEY)])
    scene.run_for(59.0)
    assert scene.evictions() == {}
    scene.run_for(100.0)
    assert scene.evictions() == {"p": pytest.approx(60.0, abs=1.5)}


def test_restarted_controller_still_counts_from_the_taint(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(tolerations=[toleration(60)])
    scene.run_for(40.0)
    scene.manager.halt()
    began = scene.began
    scene.start()
    scene.began = began
    scene.run_for(60.0)
    assert scene.evictions() == {"p": pytest.approx(60.0, abs=1.5)}


def test_earlier_claim_of_two_decides(scene: Scene) -> None:
    scene.slice([scene.taint()])
    scene.pod(claims=("c", "d"))
    scene.claim(tolerations=[toleration(60)])
    scene.claim("d", tolerations=[toleration(30)])
    scene.run_for(100.0)
    assert scene.evictions() == {"p": pytest.approx(30.0, abs=1.5)}


def test_pod_of_the_same_name_is_not_deleted(scene: Scene) -> None:
    """The controller's watch of pods is late: it shows the pod that the claim is reserved for."""
    scene.slice([scene.taint()])
    scene.pod()
    scene.claim(tolerations=[toleration(30)])
    scene.run_for(20.0)
    scene.cluster.delete(PODS, "default/p", grace_seconds=0)
    uid = scene.pod()
    scene.run_for(60.0)
    assert scene.evictions() == {}
    assert scene.cluster.get(PODS, "default/p")["metadata"]["uid"] == uid  # type: ignore[index]


# Rules.


def test_new_rule_gets_a_condition_at_once(scene: Scene) -> None:
    scene.rule(scene.taint())
    scene.run_for(1.0)
    assert scene.condition() == ("False", "NotStarted", "", NEVER)
    scene.run_for(60.0)
    assert len(scene.statuses()) == 1


def test_rule_reports_the_pending_pod_and_ten_seconds_later_the_eviction(scene: Scene) -> None:
    evict_by_rule(scene)
    scene.run_for(60.0)
    assert scene.statuses() == [
        (pytest.approx(0, abs=0.5), "PodsPendingEviction", "1 pod needs to be evicted in 1 namespace."),
        (pytest.approx(STATUS_PERIOD, abs=1.1), "Completed", "1 pod evicted since starting the controller."),
    ]


def test_rule_reports_a_tolerated_taint_until_the_eviction(scene: Scene) -> None:
    scene.pod()
    scene.claim(tolerations=[toleration(60)])
    scene.rule(scene.taint())
    scene.run_for(50.0)
    assert [status[1] for status in scene.statuses()] == ["PodsPendingEviction"]
    scene.run_for(50.0)
    assert scene.statuses()[1:] == [
        (pytest.approx(70.0, abs=2.0), "Completed", "1 pod evicted since starting the controller.")
    ]


def test_rule_counts_pods_and_namespaces(scene: Scene) -> None:
    scene.cluster.create(NAMESPACES, {"metadata": {"name": "other"}})
    for namespace in ("default", "other"):
        scene.pod(namespace=namespace)
        scene.claim(namespace=namespace)
    scene.pod("q", claims=("d",))
    scene.claim("d", consumers=[scene.consumer("q")])
    scene.rule(scene.taint())
    scene.run_for(30.0)
    assert [status[1:] for status in scene.statuses()] == [
        ("PodsPendingEviction", "3 pods need to be evicted in 2 different namespaces."),
        ("Completed", "3 pods evicted since starting the controller."),
    ]


def test_rule_without_effect_reports_what_it_would_evict(scene: Scene) -> None:
    scene.slice()
    scene.slice(name="older", generation=0)
    scene.pod()
    scene.claim()
    scene.run_for(1.0)
    scene.rule(scene.taint("None"))
    scene.run_for(60.0)
    ((_, reason, message),) = scene.statuses()
    assert reason == "NoEffect"
    assert message.startswith(
        "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 n"
    )
    assert scene.evictions() == {}


def test_rule_with_another_effect_evicts_nothing(scene: Scene) -> None:
    scene.pod()
    scene.claim()
    scene.rule(scene.taint("NoSchedule"))
    scene.run_for(60.0)
    assert [status[1] for status in scene.statuses()] == ["OtherEffect"]
    assert scene.evictions() == {}


def test_two_rules_share_an_eviction(scene: Scene) -> None:
    scene.pod(claims=("c", "d"))
    scene.claim()
    scene.claim("d", devices=("unused",))
    scene.rule(scene.taint(), "first", device="instance")
    scene.rule(scene.taint(at=40.0), "second", device="unused")
    scene.run_for(60.0)
    assert list(scene.evictions()) == ["p"]
    assert [scene.statuses(rule)[-1][1:] for rule in ("first", "second")] == [
        ("Completed", "1 pod evicted since starting the controller.")
    ] * 2


def test_condition_follows_a_cancelled_eviction(scene: Scene) -> None:
    scene.pod()
    scene.claim(tolerations=[toleration(60)])
    scene.rule(scene.taint())
    scene.run_for(20.0)
    deallocate(scene)
    scene.run_for(30.0)
    assert [status[1] for status in scene.statuses()] == ["PodsPendingEviction", "NotStarted"]


def test_changed_rule_gets_a_condition_for_its_generation_at_once(scene: Scene) -> None:
    scene.rule(scene.taint())
    scene.run_for(2.0)
    scene.rule(scene.taint("NoSchedule"))
    scene.run_for(1.0)
    assert [status[1] for status in scene.statuses()] == ["NotStarted", "OtherEffect"]
    assert scene.condition() is not None


def test_condition_is_owned_by_the_controller(scene: Scene) -> None:
    scene.rule(scene.taint())
    scene.run_for(2.0)
    fields = scene.cluster.get(DEVICE_TAINT_RULES, "evict")["metadata"]["managedFields"]  # type: ignore[index]
    assert [(entry["operation"], entry.get("subresource")) for entry in fields if entry["manager"] == SPEC.name] == [
        ("Apply", "status")
    ]


def test_rules_are_ignored_without_the_feature_gate(cluster: SimulatedCluster) -> None:
    scene = Scene(cluster, WITHOUT_RULES)
    evict_by_rule(scene)
    scene.run_for(60.0)
    assert (scene.evictions(), scene.statuses()) == ({}, [])
    assert DEVICE_TAINT_RULES.id not in scene.manager.tables


# The rest.


def test_evictions_are_counted_with_their_delay(scene: Scene) -> None:
    scene.slice([scene.taint(at=-30.0)])
    scene.pod()
    scene.claim()
    scene.run_for(5.0)
    metrics = scene.manager.metrics
    assert metrics.counter(EVICTIONS).value == 1
    assert 30.0 < metrics.histogram(EVICTION_DURATION).sum < 31.0, "seconds since the taint was added"


def test_pod_that_others_deleted_is_counted_but_not_deleted_again(scene: Scene) -> None:
    scene.pod()
    scene.claim(tolerations=[toleration(20)])
    scene.rule(scene.taint())
    scene.run_for(10.0)
    scene.cluster.delete(PODS, "default/p", grace_seconds=600)
    scene.run_for(60.0)
    assert (scene.evictions(), scene.events()) == ({}, [])
    assert scene.statuses()[-1][1:] == ("Completed", "1 pod evicted since starting the controller.")


def test_number_of_workers_is_positive() -> None:
    message = "concurrent-device-taint-eviction-syncs must be greater than zero, got 0"
    with pytest.raises(InvalidOptionsError, match=message):
        read_options(["--concurrent-device-taint-eviction-syncs=0"])


def test_controller_requires_the_feature_gate() -> None:
    assert SPEC.enabled_if(read_options([]))
    assert not SPEC.enabled_if(read_options(["--feature-gates=DRADeviceTaints=false,DRADeviceTaintRules=false"]))
