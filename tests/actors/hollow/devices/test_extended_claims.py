"""Pods whose extended resources are provided by devices: claims that the hollow scheduler creates for them."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Patch, Update
from kcm.protocols.messages.outcomes import Conflict, Outcome, Unknown
from kcm.protocols.objects import Object, decode_object, name_of
from kcm.protocols.resource_claims import DELETE_PROTECTION, EXTENDED_RESOURCE_CLAIM
from kcm.protocols.resources import PODS, RESOURCE_CLAIMS
from tests.actors.hollow.devices.test_claims import CLASS, World, allocated, claim, failed, message, published
from tests.actors.hollow.objects import hollow_node, unassigned

GPU, IMPLICIT = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"
PROVIDING = {**CLASS, "spec": {**CLASS["spec"], "extendedResourceName": GPU}}
REQUEST = {
    "name": "container-0-request-0",
    "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
}


def requesting(name: str = "web", *, resource: str = GPU, amount: str = "1", **status: Any) -> Object:
    made = unassigned(name, requests={resource: amount})
    made["metadata"]["uid"] = f"uid-of-{name}"
    return {**made, "status": {**made["status"], **status}}


def extended_claim(pod: str = "web") -> Object:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"uid-of-{pod}", "controller": True}
    annotations = {EXTENDED_RESOURCE_CLAIM: "true"}
    made = claim("earlier", meta={"annotations": annotations, "ownerReferences": [reference], "uid": "uid-of-earlier"})
    return {**made, "spec": {"devices": {"requests": [REQUEST]}}}


def claims_of(world: World) -> list[Object]:
    return list(world.bench.tables[RESOURCE_CLAIMS].objects())


def target(driven: Any) -> str | None:
    bindings = [decode_object(each.body) for each in driven.of(Create) if each.subresource == "binding"]
    return bindings[0]["target"]["name"] if bindings else None


@pytest.mark.parametrize("resource", [GPU, IMPLICIT])
def test_claim_is_created_for_an_extended_resource(resource: str) -> None:
    world = World(requesting(resource=resource), classes=[PROVIDING])
    driven = world.drive()
    created, protected, reserved, reported, bound = driven.commands
    assert isinstance(created, Create)
    made = decode_object(created.body)
    assert made["metadata"]["generateName"] == "web-extended-resources-"
    assert name_of(made).startswith("web-extended-resources-")
    assert made["metadata"]["annotations"] == {EXTENDED_RESOURCE_CLAIM: "true"}
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-of-web", "controller": True}
    ]
    assert made["spec"]["devices"]["requests"] == [REQUEST]
    assert isinstance(protected, Update)
    assert isinstance(reserved, Update)
    status = decode_object(reserved.body)["status"]
    assert [user["name"] for user in status["reservedFor"]] == ["web"]
    (result,) = status["allocation"]["devices"]["results"]
    assert (result["request"], result["pool"], result["device"]) == ("container-0-request-0", "hollow-node-0", "gpu-0")
    assert isinstance(reported, Patch)
    assert (reported.resource, reported.subresource) == (PODS.id, "status")
    assert decode_object(reported.body)["status"] == {
        "extendedResourceClaimStatus": {
            "resourceClaimName": name_of(made),
            "requestMappings": [
                {"containerName": "web", "resourceName": resource, "requestName": "container-0-request-0"}
            ],
        }
    }
    assert isinstance(bound, Create)
    assert bound.subresource == "binding"


def test_resource_of_a_device_plugin_needs_no_claim() -> None:
    world = World(requesting(), classes=[PROVIDING], nodes=[hollow_node(allocatable={GPU: "1"})])
    driven = world.drive()
    assert (target(driven), claims_of(world)) == ("hollow-node-0", [])


def test_node_with_devices_is_used_if_another_lacks_them() -> None:
    nodes = [hollow_node("hollow-node-0"), hollow_node("hollow-node-1")]
    world = World(requesting(), classes=[PROVIDING], nodes=nodes, slices=[published("hollow-node-1")])
    assert target(world.drive()) == "hollow-node-1"


def test_resource_without_a_class_is_insufficient() -> None:
    driven = World(requesting()).drive()
    assert message(driven).startswith("0/1 nodes are available: 1 Insufficient example.com/gpu.")


def test_no_claim_is_created_without_a_free_device() -> None:
    world = World(requesting(amount="2"), classes=[PROVIDING])
    assert message(world.drive()) == failed("cannot allocate all claims")
    assert claims_of(world) == []


def test_devices_of_a_pod_being_bound_are_not_given_to_another() -> None:
    world = World(requesting(), requesting("other"), classes=[PROVIDING])
    messages: list[str] = []

    def meanwhile(command: Command) -> Outcome:
        if isinstance(command, Create) and command.resource == RESOURCE_CLAIMS.id:
            messages.append(message(world.drive("other")))
        return world.bench.accept(command)

    assert target(world.drive(answer=meanwhile)) == "hollow-node-0"
    assert messages == [failed("cannot allocate all claims")]
    world.bench.clock.advance(10)
    assert message(world.drive("other")) == failed("cannot allocate all claims")


def test_stale_claim_is_deleted() -> None:
    world = World(requesting(), classes=[PROVIDING], claims=[extended_claim()])
    driven = world.drive()
    assert message(driven).startswith(
        "0/1 nodes are available: 1 cannot schedule extended resource claim. deletion of ResourceClaim completed"
    )
    assert [command.key for command in driven.of(Delete)] == ["default/earlier"]
    world.bench.hide(RESOURCE_CLAIMS, "default/earlier")
    world.bench.clock.advance(10)
    assert target(world.drive()) == "hollow-node-0"


def test_claim_that_is_reserved_for_the_pod_is_used() -> None:
    world = World(requesting(), classes=[PROVIDING], claims=[allocated(extended_claim(), "web")])
    driven = world.drive()
    assert (target(driven), len(claims_of(world))) == ("hollow-node-0", 1)
    status = (world.bench.tables[PODS].get("default/web") or {})["status"]
    assert status["extendedResourceClaimStatus"]["resourceClaimName"] == "earlier"


def test_reserved_claim_is_deleted_if_its_node_cannot_be_used() -> None:
    given = allocated(extended_claim(), "web", node="hollow-node-1")
    world = World(requesting(), classes=[PROVIDING], claims=[given])
    driven = world.drive()
    assert "deletion of ResourceClaim completed" in message(driven)
    (patch,) = [command for command in driven.of(Patch) if command.resource == RESOURCE_CLAIMS.id]
    assert DELETE_PROTECTION not in (decode_object(patch.body)["metadata"]["finalizers"] or ())
    assert [command.key for command in driven.of(Delete)] == ["default/earlier"]


def test_claim_is_deleted_if_the_pod_is_not_bound() -> None:
    world = World(requesting(), classes=[PROVIDING])

    def refusing(command: Command) -> Outcome:
        if isinstance(command, Create) and command.subresource == "binding":
            return Conflict("another node")
        return world.bench.accept(command)

    driven = world.drive(answer=refusing)
    assert [command.resource for command in driven.of(Delete)] == [RESOURCE_CLAIMS.id]
    world.bench.catch_up()
    assert claims_of(world) == []


def test_creation_with_unknown_outcome_reserves_its_devices() -> None:
    world = World(requesting(), requesting("other"), classes=[PROVIDING])

    def lost(command: Command) -> Outcome:
        return Unknown("timeout") if command.resource == RESOURCE_CLAIMS.id else world.bench.accept(command)

    world.drive(answer=lost, raises=CommandError)
    assert message(world.drive("other")) == failed("cannot allocate all claims")
    world.bench.clock.advance(100)
    assert target(world.drive("other")) == "hollow-node-0"
