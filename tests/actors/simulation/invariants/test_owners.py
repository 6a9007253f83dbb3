from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.simulation.invariants.owners import Owners
from kcm.actors.simulation.invariants.ownership import OwnershipIndex, Owns, declared_controller, replicas_of
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, Update
from kcm.protocols.objects import Object, OwnerRef, encode_object, owner_reference
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import PODS, REPLICASETS, Resource
from kcm.runtime.tables.table import Table

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
OWNERSHIP = OwnershipIndex(
    [declared_controller("replicaset-controller", owns=[Owns(REPLICASETS, PODS, wanted=replicas_of)])]
)
WEB = ("default", OwnerRef("apps/v1", "ReplicaSet", "web", "uid-of-web"))


def known(*objects: tuple[Resource, Object]) -> Owners:
    """Return the owners for a process whose tables contain these objects, up to version 8."""
    tables = {PODS.id: Table(PODS, derive=pod_facts), REPLICASETS.id: Table(REPLICASETS)}
    for resource, table in tables.items():
        found = [obj for known, obj in objects if known.id == resource]
        table.claim().replace([table.make_entry(obj, encode_object(obj)) for obj in found], 8)
    system: Any = SimpleNamespace(tables=tables)
    return Owners(system, OWNERSHIP)


def namesake(uid: str, version: int, replicas: int) -> bytes:
    """Build an owner of the same name, with any uid."""
    meta = {**OWNER["metadata"], "uid": uid, "resourceVersion": str(version)}
    return encode_object({**OWNER, "metadata": meta, "spec": {"replicas": replicas}})


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
def test_command_concerns_the_owner_of_its_pod(command: Command) -> None:
    assert known((PODS, POD), (REPLICASETS, OWNER)).concerned(command) == WEB


def test_a_pod_that_is_adopted_concerns_its_new_owner() -> None:
    former = {**REFERENCE, "uid": "uid-of-a-former-web"}
    pod = {"metadata": {**POD["metadata"], "ownerReferences": [former]}}
    adoption = Patch(PODS.id, "default/a", encode_object({"metadata": {"ownerReferences": [REFERENCE]}}))
    assert known((PODS, pod), (REPLICASETS, OWNER)).concerned(adoption) == WEB


@pytest.mark.parametrize("command", [Delete(PODS.id, "default/unseen"), Get(REPLICASETS.id, "default/unseen")])
def test_owner_of_an_unseen_object_is_unknown(command: Command) -> None:
    assert known().concerned(command) is None


def test_process_without_a_table_of_pods_has_no_owners() -> None:
    system: Any = SimpleNamespace(tables={})
    assert Owners(system, OWNERSHIP).concerned(Delete(PODS.id, "default/a")) is None


LOOK = Get(REPLICASETS.id, "default/web")


@pytest.mark.parametrize(
    ("uid", "version", "concerned", "wanted"),
    [
        ("uid-of-another", 9, "uid-of-another", {"uid-of-web": [1], "uid-of-another": [5]}),
        ("uid-of-another", 8, "uid-of-web", {"uid-of-web": [1], "uid-of-another": []}),
        ("uid-of-web", 9, "uid-of-web", {"uid-of-web": [1, 5], "uid-of-another": []}),
    ],
    ids=["another one, which is newer than the table", "another one, which the table has passed", "itself, resized"],
)
def test_newest_of_several_owners_with_one_name_is_concerned(
    uid: str, version: int, concerned: str, wanted: dict[str, list[int]]
) -> None:
    # The commands after the read of the newer owner are based on this read, and not on the first write of its pods.
    owners = known((REPLICASETS, OWNER))
    owners.returned(LOOK, namesake(uid, version, replicas=5))
    found = owners.concerned(LOOK)
    assert found is not None
    assert found[1].uid == concerned
    assert {uid: owners.wanted("default", WEB[1]._replace(uid=uid)) for uid in wanted} == wanted


def test_owner_missing_in_tables_is_known_from_a_response() -> None:
    owners = known()
    owners.returned(LOOK, namesake("uid-of-web", 9, replicas=5))
    assert owners.concerned(LOOK) == WEB
    assert (owners.version("uid-of-web"), owners.version("uid-of-another")) == (9, 0)
