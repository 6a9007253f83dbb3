from __future__ import annotations

from types import SimpleNamespace

import pytest

from actors.simulation.invariants.counts import owner_concerned
from actors.simulation.invariants.ownership import Ownership, Owns, keeper, replicas_of
from protocols.messages.commands import Command, Create, Delete, Get, Patch, Update
from protocols.objects import Object, OwnerRef, encode_object, owner_reference
from protocols.pods import pod_facts
from protocols.resources import PODS, REPLICASETS, Resource
from runtime.tables.table import Table

OWNER = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-of-web", "resourceVersion": "7"}}
REFERENCE = owner_reference(OWNER, api_version="apps/v1", kind="ReplicaSet")
POD = {
    "metadata": {
        "name": "a",
        "namespace": "default",
        "uid": "a",
        "resourceVersion": "8",
        "ownerReferences": [REFERENCE],
    }
}
OWNERSHIP = Ownership([keeper("replicaset-controller", owns=[Owns(REPLICASETS, PODS, wanted=replicas_of)])])
WEB = ("default", OwnerRef("apps/v1", "ReplicaSet", "web", "uid-of-web"))


def system(*objects: tuple[Resource, Object]) -> SimpleNamespace:
    tables = {PODS.id: Table(PODS, derive=pod_facts), REPLICASETS.id: Table(REPLICASETS)}
    for resource, obj in objects:
        table = tables[resource.id]
        table.claim().put(table.make_entry(obj, encode_object(obj)))
    return SimpleNamespace(tables=tables)


@pytest.mark.parametrize(
    "command",
    [
        Create(PODS.id, "default", encode_object(POD)),
        Delete(PODS.id, "default/a"),
        Get(PODS.id, "default/a"),
        Patch(PODS.id, "default/unseen", encode_object({"metadata": {"ownerReferences": [REFERENCE]}})),
        Get(REPLICASETS.id, "default/web"),
        Update(REPLICASETS.id, "default/web", encode_object(OWNER), subresource="status"),
    ],
    ids=lambda command: f"{type(command).__name__} {command.resource}",
)
def test_whom_a_command_concerns(command: Command) -> None:
    assert owner_concerned(system((PODS, POD), (REPLICASETS, OWNER)), command, OWNERSHIP) == WEB


def test_a_pod_that_is_adopted_concerns_its_new_owner() -> None:
    former = {**REFERENCE, "uid": "uid-of-a-former-web"}
    pod = {"metadata": {**POD["metadata"], "ownerReferences": [former]}}
    adoption = Patch(PODS.id, "default/a", encode_object({"metadata": {"ownerReferences": [REFERENCE]}}))
    assert owner_concerned(system((PODS, pod), (REPLICASETS, OWNER)), adoption, OWNERSHIP) == WEB


@pytest.mark.parametrize("command", [Delete(PODS.id, "default/unseen"), Get(REPLICASETS.id, "default/unseen")])
def test_of_what_no_table_shows_nobody_knows_whose_it_is(command: Command) -> None:
    assert owner_concerned(system(), command, OWNERSHIP) is None


def test_who_reads_no_pods_does_not_know_whose_they_are() -> None:
    assert owner_concerned(SimpleNamespace(tables={}), Delete(PODS.id, "default/a"), OWNERSHIP) is None
