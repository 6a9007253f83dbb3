"""ResourceClaims of pods in the hollow scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from kcm.actors.hollow.scheduler.devices.claim_facts import CLAIMS_BY_DEVICE, PODS_BY_DEVICE_CLAIM, PODS_BY_GROUP
from kcm.actors.hollow.scheduler.devices.claims import PodDevices
from kcm.actors.hollow.scheduler.preemptor import Preemptor
from kcm.actors.hollow.scheduler.reconciler import HollowScheduler
from kcm.actors.hollow.scheduler.watches import device_watches
from kcm.actors.reconciliation import Change
from kcm.actors.reconciliation.derived import PODS_BY_NODE
from kcm.actors.simulation.driver import NOW, Bench, Driven, bodies, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Get, Patch, Update
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome, Unknown
from kcm.protocols.objects import Object, decode_object, encode_object, key_of
from kcm.protocols.resource_claims import DELETE_PROTECTION
from kcm.protocols.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from kcm.protocols.times import format_time
from tests.actors.hollow.objects import hollow_node, unassigned

DRIVER = "gpu.example.com"
CLASS = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}}
LATER = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def published(node: str = "hollow-node-0", *names: str, **fields: Any) -> Object:
    """Build the ResourceSlice of a node, by default with one device gpu-0."""
    return {
        "metadata": {"name": f"{node}-gpu"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "nodeName": node,
            "devices": [{"name": name, **fields} for name in names or ("gpu-0",)],
        },
    }


def claim(name: str = "gpu", *, meta: Mapping[str, Any] = {}, **request: Any) -> Object:
    demand = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **request}
    made = {"name": "r", "exactly": demand} if "firstAvailable" not in request else {"name": "r", **request}
    return {
        "metadata": {"name": name, "namespace": "default", **meta},
        "spec": {"devices": {"requests": [made]}},
    }


def allocated(made: Object, *users: str, device: str = "gpu-0", node: str = "hollow-node-0", **result: Any) -> Object:
    """Return the claim with a device of a node, reserved for these pods."""
    requirement = {"key": "metadata.name", "operator": "In", "values": [node]}
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": device, **result}]
    status: Object = {
        "allocation": {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [requirement]}]},
            "allocationTimestamp": format_time(NOW),
        }
    }
    if users:
        status["reservedFor"] = [{"resource": "pods", "name": user, "uid": f"uid-of-{user}"} for user in users]
    return {**made, "metadata": {**made["metadata"], "finalizers": [DELETE_PROTECTION]}, "status": status}


def user(name: str = "web", *claims: str, **spec: Any) -> Object:
    """Build a pod with these claims, by default the claim gpu."""
    references = [{"name": each, "resourceClaimName": each} for each in claims or ("gpu",)]
    return unassigned(name, resourceClaims=references, **spec)


def template_user(**statuses: Any) -> Object:
    """Build a pod with a claim of a template. statuses: its status.resourceClaimStatuses, by name."""
    pod = unassigned(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    names = [{"name": name, **({"resourceClaimName": value} if value else {})} for name, value in statuses.items()]
    return {**pod, "status": {**pod["status"], "resourceClaimStatuses": names}}


class World:
    def __init__(
        self,
        *pods: Object,
        claims: Sequence[Object] = (),
        slices: Sequence[Object] | None = None,
        classes: Sequence[Object] = (CLASS,),
        nodes: Sequence[Object] | None = None,
        rules: Sequence[Object] = (),
        groups: Sequence[Object] | None = None,
    ) -> None:
        objects: Mapping[Any, Any] = {
            PODS: pods or [user()],
            NODES: nodes or [hollow_node()],
            RESOURCE_CLAIMS: claims,
            RESOURCE_SLICES: [published()] if slices is None else slices,
            DEVICE_CLASSES: classes,
            POD_DISRUPTION_BUDGETS: [],
            DEVICE_TAINT_RULES: rules,
            POD_GROUPS: groups or (),
        }
        indexes = (PODS_BY_NODE, PODS_BY_DEVICE_CLAIM, CLAIMS_BY_DEVICE, PODS_BY_GROUP)
        self.bench = Bench(objects, indexes=indexes)
        tables, clock = self.bench.tables, self.bench.clock
        self.scheduler = HollowScheduler(
            tables=tables,
            clock=clock,
            devices=PodDevices(tables, clock, rules=DEVICE_TAINT_RULES, groups=groups is not None),
            preemptor=Preemptor(tables, clock),
        )

    def drive(self, name: str = "web", answer: Callable[..., Any] | None = None, **options: Any) -> Driven:
        answer = answer or self.bench.accept
        return drive(self.scheduler, f"default/{name}", answer, tables=self.bench.tables, **options)

    def node(self, name: str = "web") -> str | None:
        bindings = bodies(self.drive(name), Create)
        return bindings[0]["target"]["name"] if bindings else None

    def claim(self, name: str = "gpu") -> Object:
        found = self.bench.tables[RESOURCE_CLAIMS].get(f"default/{name}")
        assert found is not None
        return found

    def devices(self, name: str = "gpu") -> list[str]:
        results = self.claim(name)["status"]["allocation"]["devices"]["results"]
        return [f"{result['pool']}/{result['device']}" for result in results]


def message(driven: Driven) -> str:
    (text,) = [text for _, reason, text in driven.events if reason == "FailedScheduling"]
    return text


def failed(reason: str) -> str:
    return (
        f"0/1 nodes are available: 1 {reason}. still not schedulable, preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )


def test_claim_is_allocated_and_reserved_before_the_pod_is_bound() -> None:
    world = World(claims=[claim()])
    driven = world.drive()
    protected, reserved, bound = driven.commands
    assert isinstance(protected, Update)
    assert decode_object(protected.body)["metadata"]["finalizers"] == [DELETE_PROTECTION]
    assert isinstance(reserved, Update)
    assert reserved.subresource == "status"
    assert decode_object(reserved.body)["status"] == {
        "allocation": {
            "devices": {
                "results": [{"request": "r", "driver": DRIVER, "pool": "hollow-node-0", "device": "gpu-0"}],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["hollow-node-0"]}]}
                ]
            },
            "allocationTimestamp": format_time(NOW),
        },
        "reservedFor": [{"resource": "pods", "name": "web", "uid": "uid-of-web"}],
    }
    assert isinstance(bound, Create)
    assert bound.subresource == "binding"


def test_finalizer_is_not_added_twice() -> None:
    world = World(claims=[claim(meta={"finalizers": [DELETE_PROTECTION]})])
    assert len(world.drive().commands) == 2


def test_allocated_claim_is_reserved_for_another_pod() -> None:
    world = World(user("web"), user("other"), claims=[allocated(claim(), "other")])
    driven = world.drive()
    assert [type(command) for command in driven.commands] == [Update, Create]
    assert [each["name"] for each in world.claim()["status"]["reservedFor"]] == ["other", "web"]


def test_reserved_claim_is_not_written() -> None:
    world = World(claims=[allocated(claim(), "web")])
    assert [type(command) for command in world.drive().commands] == [Create]


GATED: Mapping[str, tuple[Object, list[Object]]] = {
    "claim does not exist": (user(), []),
    "claim is being deleted": (user(), [claim(meta=LATER)]),
    "claim of a template does not exist": (template_user(), []),
    "claim of a template is another pod's": (template_user(gpu="gpu"), [claim()]),
}


@pytest.mark.parametrize("case", GATED)
def test_pod_silently_waits_if(case: str) -> None:
    pod, claims = GATED[case]
    driven = World(pod, claims=claims).drive()
    assert (driven.commands, driven.records, driven.result) == ([], [], None)


def test_pod_with_its_claim_of_a_template_is_scheduled() -> None:
    owner = {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "uid-of-web", "controller": True}
    world = World(template_user(gpu="web-gpu"), claims=[claim("web-gpu", meta={"ownerReferences": [owner]})])
    assert world.node() == "hollow-node-0"
    assert world.devices("web-gpu") == ["hollow-node-0/gpu-0"]


def test_pod_whose_claim_is_not_needed_is_scheduled() -> None:
    assert World(template_user(gpu="")).node() == "hollow-node-0"


def test_device_is_allocated_to_one_claim_only() -> None:
    world = World(user("web", "gpu"), user("other", "b"), claims=[claim(), claim("b")])
    assert world.node() == "hollow-node-0"
    driven = world.drive("other")
    assert bodies(driven, Create) == []
    assert message(driven) == failed("cannot allocate all claims")


def test_device_with_admin_access_may_be_allocated_again() -> None:
    world = World(user("web", "gpu"), claims=[claim(), allocated(claim("b"), "other", adminAccess=True)])
    assert world.node() == "hollow-node-0"


def test_pod_runs_on_the_node_that_has_its_devices() -> None:
    nodes = [hollow_node(), hollow_node("hollow-node-1")]
    assert World(claims=[claim()], slices=[published("hollow-node-1")], nodes=nodes).node() == "hollow-node-1"


def test_nodes_with_the_preferred_alternative_come_first() -> None:
    nodes = [hollow_node(), hollow_node("hollow-node-1"), hollow_node("hollow-node-2")]
    common = {"deviceClassName": "gpu", "allocationMode": "ExactCount"}
    alternatives = [{"name": "two", "count": 2, **common}, {"name": "one", "count": 1, **common}]
    slices = [published("hollow-node-0"), published("hollow-node-1"), published("hollow-node-2", "a", "b")]
    world = World(claims=[claim(firstAvailable=alternatives)], slices=slices, nodes=nodes)
    assert world.node() == "hollow-node-2"
    assert world.devices() == ["hollow-node-2/a", "hollow-node-2/b"]


UNSCHEDULABLE: Mapping[str, tuple[World, str]] = {
    "class": (
        World(claims=[claim()], classes=()),
        (
            "0/1 nodes are available: request r: device class gpu does not exist. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        ),
    ),
    "slice": (World(claims=[claim()], slices=()), failed("cannot allocate all claims")),
    "valid slice": (
        World(claims=[claim()], slices=[published("hollow-node-0", "gpu-0", "gpu-0")]),
        failed("invalid resource pools were encountered"),
    ),
}


@pytest.mark.parametrize("case", UNSCHEDULABLE)
def test_pod_is_unschedulable_without(case: str) -> None:
    world, expected = UNSCHEDULABLE[case]
    assert message(world.drive()) == expected


def test_invalid_selector_is_a_scheduler_error() -> None:
    world = World(claims=[claim(selectors=[{"cel": {"expression": "device.attributes['a'].b"}}])])
    driven = world.drive()
    expected = (
        'running "DynamicResources" filter plugin: claim default/gpu: selector #0: CEL runtime error: no such key: b'
    )
    assert message(driven) == expected
    (body,) = bodies(driven, Patch)
    (condition,) = body["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("SchedulerError", expected)


def test_malformed_slice_is_ignored() -> None:
    broken = {"metadata": {"name": "broken"}, "spec": {"driver": DRIVER}}
    assert World(claims=[claim()], slices=[broken, published()]).node() == "hollow-node-0"


# Writes that fail.


def test_concurrently_changed_claim_is_read_and_written_again() -> None:
    world = World(claims=[claim()])
    conflicts: list[Command] = []

    def answer(command: Command) -> Outcome:
        if isinstance(command, Update) and len(conflicts) < 2:
            conflicts.append(command)
            return Conflict("changed")
        return world.bench.accept(command)

    driven = world.drive(answer=answer)
    assert [type(command).__name__ for command in driven.commands] == [
        "Update", "Get", "Update", "Get", "Update", "Update", "Create",
    ]  # fmt: skip


@pytest.mark.parametrize("outcome", [NotFound(), Conflict("bound")])
def test_claim_is_released_if_the_pod_cannot_be_bound(outcome: Outcome) -> None:
    world = World(claims=[claim()])
    driven = world.drive(answer=lambda command: outcome if isinstance(command, Create) else world.bench.accept(command))
    body = bodies(driven, Patch)[-1]
    assert body["status"] == {"reservedFor": [{"$patch": "delete", "uid": "uid-of-web"}]}


def test_claim_that_was_allocated_by_another_scheduler_is_looked_at_again() -> None:
    world = World(claims=[claim()])
    elsewhere = allocated(claim(meta={"uid": "uid-of-gpu", "resourceVersion": "999"}), "other")

    def answer(command: Command) -> Outcome:
        if isinstance(command, Update):
            return Conflict("changed")
        return Done(encode_object(elsewhere)) if isinstance(command, Get) else world.bench.accept(command)

    assert bodies(world.drive(answer=answer), Create) == []
    assert world.node() == "hollow-node-0"


class Silent(World):
    """A world in which the outcome of each write of a claim's status is unknown."""

    def answer(self, command: Command) -> Outcome:
        if isinstance(command, Update) and command.subresource == "status":
            return Unknown("no response")
        return self.bench.accept(command)

    def fail(self) -> None:
        with pytest.raises(CommandError):
            self.drive(answer=self.answer)


def test_device_stays_reserved_while_the_outcome_of_a_write_is_unknown() -> None:
    world = Silent(user("web", "gpu"), user("other", "b"), claims=[claim(), claim("b")])
    world.fail()
    assert message(world.drive("other")) == failed("cannot allocate all claims")
    world.bench.clock.advance(61)
    assert world.node("other") == "hollow-node-0"


def test_allocation_with_unknown_outcome_is_written_again() -> None:
    world = Silent(claims=[claim()], slices=[published("hollow-node-0", "a", "b")])
    world.fail()
    assert world.node() == "hollow-node-0"
    assert world.devices() == ["hollow-node-0/a"]


def test_claim_whose_allocation_is_being_written_is_not_allocated_for_another_pod() -> None:
    world = Silent(user("web"), user("other"), claims=[claim()])
    world.fail()
    assert message(world.drive("other")).startswith(
        "0/1 nodes are available: resource claim default/gpu is in the process of being allocated. "
    )


def test_device_of_a_deleted_claim_is_released() -> None:
    world = Silent(user("web", "gpu"), user("other", "b"), claims=[claim(), claim("b")])
    world.fail()
    world.bench.hide(RESOURCE_CLAIMS, "default/gpu")
    assert world.node("other") == "hollow-node-0"


# Allocated claims that cannot be used.


def test_idle_claim_that_cannot_be_used_is_deallocated() -> None:
    world = World(claims=[allocated(claim(), node="gone")])
    driven = world.drive()
    assert message(driven) == (
        "0/1 nodes are available: 1 resourceclaim not available on the node. deallocation of ResourceClaim completed, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    assert "allocation" not in world.claim()["status"]
    world.bench.catch_up()
    world.bench.clock.advance(2)
    assert world.node() == "hollow-node-0"


def test_claim_that_another_pod_uses_is_not_deallocated() -> None:
    world = World(claims=[allocated(claim(), "other", node="gone")])
    assert message(world.drive()) == failed("resourceclaim not available on the node")
    assert "allocation" in world.claim()["status"]


# Devices that must be prepared before the pod is bound.

CONDITIONS: Mapping[str, Any] = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}


def reporting(made: Object, **conditions: str) -> Object:
    """Return the allocated claim with conditions of its device."""
    shown = [{"type": name, "status": status} for name, status in conditions.items()]
    device = {"driver": DRIVER, "pool": "hollow-node-0", "device": "gpu-0", "conditions": shown}
    return {**made, "status": {**made["status"], "devices": [device]}}


def test_pod_waits_for_the_binding_conditions_of_its_device() -> None:
    world = World(claims=[claim()], slices=[published("hollow-node-0", "gpu-0", **CONDITIONS)])
    driven = world.drive()
    assert bodies(driven, Create) == []
    assert driven.events == [
        ("Normal", "BindingConditionsPending", "waiting for binding conditions for device on node hollow-node-0")
    ]
    assert world.drive().events == []
    world.bench.show(RESOURCE_CLAIMS, reporting(world.claim(), Ready="True"))
    assert world.node() == "hollow-node-0"


@pytest.mark.parametrize("conditions", [{"Broken": "True"}, {"Ready": "False"}])
def test_device_that_cannot_be_prepared_is_deallocated(conditions: dict[str, str]) -> None:
    world = World(claims=[reporting(allocated(claim(), "web", **CONDITIONS), **conditions)])
    world.bench.clock.advance(601)
    assert "deallocation of ResourceClaim completed" in message(world.drive())
    assert world.claim()["status"] == {}


# Changes that enqueue pods.


def change(resource: Any, new: Object, *, old: Object | None = None, type: str = "MODIFIED") -> list[str]:
    world = World(user("web"), user("other", "b"), unassigned("plain"), claims=[claim()])
    (watch,) = [each for each in device_watches() if each.resource == resource]
    made = Change(
        type=type,
        key=key_of(new),
        raw=encode_object(new),
        controller=None,
        previous=b"" if old is None else encode_object(old),
    )
    return sorted(set(watch.to(made, world.bench.tables)))


BOTH = ["default/other", "default/web"]
WOKEN: Mapping[str, tuple[list[str], list[str]]] = {
    "new slice": (change(RESOURCE_SLICES, published(), type="ADDED"), BOTH),
    "changed class": (change(DEVICE_CLASSES, CLASS, old=CLASS), BOTH),
    "new claim": (change(RESOURCE_CLAIMS, claim(), type="ADDED"), ["default/web"]),
    "allocated claim": (change(RESOURCE_CLAIMS, allocated(claim()), old=claim()), ["default/web"]),
    "deallocated claim": (change(RESOURCE_CLAIMS, claim(), old=allocated(claim())), BOTH),
    "deleted claim": (change(RESOURCE_CLAIMS, allocated(claim()), type="DELETED"), BOTH),
    "deleted claim without devices": (change(RESOURCE_CLAIMS, claim(), type="DELETED"), ["default/web"]),
}


@pytest.mark.parametrize("case", WOKEN)
def test_pods_are_enqueued_by(case: str) -> None:
    woken, expected = WOKEN[case]
    assert woken == expected


# DeviceTaintRules. Source: kubernetes v1.36 dynamic-resource-allocation/resourceslice/tracker/tracker_test.go.


def taint_rule(effect: str = "NoSchedule", selector: Mapping[str, str] | None = {}) -> Object:
    spec: Object = {"taint": {"key": "broken", "value": "yes", "effect": effect}}
    if selector is not None:
        spec["deviceSelector"] = dict(selector)
    return {"metadata": {"name": "rule"}, "spec": spec}


@pytest.mark.parametrize(
    ("rule", "tolerated", "place"),
    [
        (taint_rule(selector={"driver": DRIVER}), False, None),
        (taint_rule("NoExecute", selector={"driver": DRIVER}), False, None),
        (taint_rule("None", selector={"driver": DRIVER}), False, "hollow-node-0"),
        (taint_rule(selector={"driver": DRIVER}), True, "hollow-node-0"),
        (taint_rule(selector={"driver": "another.example.com"}), False, "hollow-node-0"),
        (taint_rule(selector={"pool": "hollow-node-0"}), False, None),
        (taint_rule(selector={"pool": "hollow-node-1"}), False, "hollow-node-0"),
        (taint_rule(selector={"device": "gpu-0"}), False, None),
        (taint_rule(selector={"device": "gpu-1"}), False, "hollow-node-0"),
        (taint_rule(selector={}), False, None),
    ],
)
def test_rule_taints_the_devices_that_it_selects(rule: Object, tolerated: bool, place: str | None) -> None:
    tolerations = [{"key": "broken", "operator": "Exists"}] if tolerated else []
    world = World(claims=[claim(tolerations=tolerations)], rules=[rule])
    assert world.node() == place


def test_pod_is_retried_after_the_deletion_of_a_rule() -> None:
    world = World(claims=[claim()], rules=[taint_rule(selector={"driver": DRIVER})])
    assert message(world.drive()) == failed("cannot allocate all claims")
    world.bench.clock.advance(2.0)
    assert world.node() is None
    world.bench.hide(DEVICE_TAINT_RULES, "rule")
    assert world.node() == "hollow-node-0"


# Claims of PodGroups.


def pod_group(name: str = "gang", *entries: Mapping[str, Any]) -> Object:
    """Build a PodGroup, by default with the claim gpu."""
    made = list(entries) or [{"name": "gpu", "resourceClaimName": "gpu"}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"resourceClaims": made}}


def member(name: str = "web", *claims: str, **spec: Any) -> Object:
    return user(name, *claims, schedulingGroup={"podGroupName": "gang"}, **spec)


OF_GROUP = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-of-gang"}


def reserved_for_group(made: Object, **fields: Any) -> Object:
    reserved = allocated(made, **fields)
    return {**reserved, "status": {**reserved["status"], "reservedFor": [OF_GROUP]}}


def test_claim_of_the_group_is_reserved_for_the_group() -> None:
    world = World(member("web"), member("other"), claims=[claim()], groups=[pod_group()])
    assert world.node() == "hollow-node-0"
    assert world.claim()["status"]["reservedFor"] == [OF_GROUP]
    assert [type(command) for command in world.drive("other").commands] == [Create]  # it needs no reservation


def test_claim_of_the_pod_alone_is_reserved_for_the_pod() -> None:
    world = World(member("web", "own"), claims=[claim("own")], groups=[pod_group()])
    assert world.node() == "hollow-node-0"
    assert [consumer["resource"] for consumer in world.claim("own")["status"]["reservedFor"]] == ["pods"]


def test_claim_of_the_group_is_reserved_for_the_pod_if_the_gate_is_off() -> None:
    world = World(member(), claims=[claim()])
    assert world.node() == "hollow-node-0"
    assert [consumer["resource"] for consumer in world.claim()["status"]["reservedFor"]] == ["pods"]


def owned_by(kind: str, api_version: str, name: str) -> Mapping[str, Any]:
    owner = {"kind": kind, "apiVersion": api_version, "name": name, "uid": f"uid-of-{name}", "controller": True}
    return {"ownerReferences": [owner]}


@pytest.mark.parametrize(("groups", "is_scheduled"), [([pod_group()], True), (None, False)])
def test_claim_generated_for_the_group_is_used_if_the_gate_is_on(
    groups: list[Object] | None, is_scheduled: bool
) -> None:
    template = {"name": "gpu", "resourceClaimTemplateName": "t"}
    pod = template_user(gpu="gang-gpu")
    pod["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    made = claim("gang-gpu", meta=owned_by("PodGroup", "scheduling.k8s.io/v1alpha2", "gang"))
    world = World(pod, claims=[made], groups=None if groups is None else [pod_group("gang", template)])
    assert (world.node() == "hollow-node-0") is is_scheduled


def test_pod_waits_for_its_group() -> None:
    world = World(member(), claims=[claim()], groups=[])
    assert message(world.drive()) == (
        '0/1 nodes are available: podgroup.scheduling.k8s.io "gang" not found. no new claims to deallocate, '
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    (watch,) = [watch for watch in device_watches(groups=True) if watch.resource is POD_GROUPS]
    added = Change(type="ADDED", key="default/gang", raw=encode_object(pod_group()), controller=None)
    assert list(watch.to(added, world.bench.tables)) == ["default/web"]


UNUSABLE = reserved_for_group(claim(), node="hollow-node-9")  # a node that does not exist


def test_claim_is_released_for_a_group_that_is_not_scheduled() -> None:
    world = World(member(), claims=[UNUSABLE], groups=[pod_group()])
    driven = world.drive()
    assert "ResourceClaim unreserved for PodGroup" in message(driven)
    assert not world.claim()["status"]["reservedFor"]


def test_claim_is_not_released_while_a_member_of_the_group_has_a_node() -> None:
    running = member("other", nodeName="hollow-node-0")
    world = World(member(), running, claims=[UNUSABLE], groups=[pod_group()])
    assert "still not schedulable" in message(world.drive())
    assert world.claim()["status"]["reservedFor"] == [OF_GROUP]
