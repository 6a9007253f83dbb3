"""Objects with thousands of absent owners, and the delay of dependents in other namespaces."""

from __future__ import annotations

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from tests.actors.controllers.apimachinery.garbage_collector.test_in_a_cluster import CONFIGMAPS, SECRETS, Family

NOISY = "kube-system"


@pytest.fixture
def family(log: FilteringBoundLogger) -> Family:
    return Family(log)


def absent(number: int, *, kind: str = "ConfigMap") -> Object:
    """Return an owner that does not exist."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": f"absent-{number}", "uid": f"00000000-0000-0000-0000-{number:012}"},
    }


def seconds_until(family: Family, resource: Resource, name: str, *, within: float, namespace: str = "default") -> float:
    """Return the virtual seconds until the object is deleted, in steps of a second."""
    waited = 0.0
    while family.get(resource, name, namespace) is not None:
        assert waited < within, f"{name} is still there after {waited} s"
        family.settle(1.0)
        waited += 1.0
    return waited


def lookups(family: Family) -> list[str]:
    return [
        request.path
        for _, client, request in family.cluster.transport.requests
        if client == "generic-garbage-collector" and request.method == "GET"
    ]


@pytest.mark.parametrize(
    ("objects", "owners_each", "kind"),
    [
        pytest.param(1, 1000, "ConfigMap", id="one object"),
        pytest.param(1, 1000, "Node", id="cluster-scoped owners"),
        pytest.param(25, 40, "ConfigMap", id="more objects than workers"),
        pytest.param(1000, 1, "ConfigMap", id="an owner each"),
        pytest.param(1000, 1, "Node", id="a cluster-scoped owner each"),
    ],
)
def test_dependents_of_another_namespace_do_not_wait(
    log: FilteringBoundLogger, objects: int, owners_each: int, kind: str
) -> None:
    family = Family(log)
    owner = family.make(SECRETS, "owner")
    for number in range(20):
        family.make(SECRETS, f"owned-{number}", owner)
    family.settle(5.0)
    for number in range(objects):
        first = number * owners_each
        owners = [absent(first + each, kind=kind) for each in range(owners_each)]
        family.make(CONFIGMAPS, f"heavy-{number}", *owners, namespace=NOISY)
    family.settle(1.0)
    family.make(SECRETS, "node-owned", absent(10**9, kind="Node"))
    family.cluster.delete(SECRETS, "default/owner")
    waited = max(
        seconds_until(family, SECRETS, "node-owned", within=60.0),
        *(seconds_until(family, SECRETS, f"owned-{number}", within=60.0) for number in range(20)),
    )
    assert waited <= 4.0  # 40 requests a second, half of them for the other namespace
    family.settle(90.0)
    assert family.names(CONFIGMAPS) == []
    assert len(lookups(family)) <= objects * owners_each + 30, "each owner is looked up once"


@pytest.mark.slow
def test_object_with_more_owners_than_are_remembered_is_deleted(family: Family) -> None:
    family.make(CONFIGMAPS, "heavy", *map(absent, range(6000)))
    seconds_until(family, CONFIGMAPS, "heavy", within=200.0)
    assert len(lookups(family)) == 6000


def test_object_with_thousands_of_absent_owners_is_kept_with_its_solid_owner(family: Family) -> None:
    owner = family.make(SECRETS, "owner")
    family.make(CONFIGMAPS, "heavy", *map(absent, range(1000)), owner, *map(absent, range(1000, 1500)))
    family.settle(90.0)
    assert [each["name"] for each in family.meta(CONFIGMAPS, "heavy")["ownerReferences"]] == ["owner"]


def test_owners_are_looked_up_from_the_start_when_references_change(family: Family) -> None:
    owner = family.make(SECRETS, "owner")
    heavy = family.make(CONFIGMAPS, "heavy", *map(absent, range(400)))
    family.settle(3.0)
    references = [family.reference(owner), *heavy["metadata"]["ownerReferences"]]
    family.cluster.merge(CONFIGMAPS, "default/heavy", {"metadata": {"ownerReferences": references}})
    family.settle(60.0)
    assert [each["name"] for each in family.meta(CONFIGMAPS, "heavy")["ownerReferences"]] == ["owner"]


def test_heavy_object_deleted_meanwhile_ends_the_lookups(family: Family) -> None:
    family.make(CONFIGMAPS, "heavy", *map(absent, range(1000)))
    family.settle(3.0)
    family.delete(CONFIGMAPS, "heavy")
    asked = len(lookups(family))
    family.settle(60.0)
    assert len(lookups(family)) - asked <= 10


@pytest.mark.slow
def test_dependents_of_another_namespace_do_not_wait_for_an_object_with_10000_owners(family: Family) -> None:
    owner = family.make(SECRETS, "owner")
    for number in range(20):
        family.make(SECRETS, f"owned-{number}", owner)
    family.settle(5.0)
    family.make(CONFIGMAPS, "heavy", *map(absent, range(10_000)), namespace=NOISY)
    family.settle(1.0)
    family.cluster.delete(SECRETS, "default/owner")
    assert max(seconds_until(family, SECRETS, f"owned-{number}", within=60.0) for number in range(20)) <= 4.0
    seconds_until(family, CONFIGMAPS, "heavy", within=300.0, namespace=NOISY)
