"""Tests of device taint eviction: upstream's cases in a simulated cluster.

Source of the cases: kubernetes v1.36 pkg/controller/devicetainteviction/device_taint_eviction_test.go (TestHandlers).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.devices.device_taint_eviction import SPEC
from kcm.actors.controllers.devices.device_taint_eviction.spec import EVICTION_DURATION, EVICTIONS
from kcm.actors.controllers.shared.pod_disruption import DISRUPTION_TARGET
from kcm.actors.options import InvalidOptionsError
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.conditions import find_condition
from kcm.protocols.resources import DEVICE_TAINT_RULES, NAMESPACES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload
from tests.actors.controllers.devices.taint_scene import (
    CANCELLED,
    GROUPS,
    KEY,
    MARKED,
    POOL,
    STATUS_PERIOD,
    VALUE,
    WITHOUT_RULES,
    Scene,
    toleration,
)

AT_ONCE = pytest.approx(0, abs=0.5)  # seconds


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
    assert scene.condition() == ("False", "NotStarted", "", AT_ONCE)
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
