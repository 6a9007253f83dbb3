"""Writes that wait while an object is unreadable."""

from __future__ import annotations

import pytest

from kcm.actors.engine.controller.readiness import check_readable
from kcm.actors.reconciliation import create, delete, patch
from kcm.protocols.messages.commands import Command, DeleteCollection
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import NODES, PODS, REPLICASETS, Resource
from kcm.runtime.tables.entry import Unreadable
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables
from tests.support.objects import pod, stored


def owned(name: str, uid: str) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}
    return pod(name, metadata={"ownerReferences": [owner]})


def tables_with(resource: Resource, key: str, owner: str | None) -> Tables:
    """Build tables of pods, nodes and ReplicaSets.

    They contain the pods default/a (owner u1) and default/orphan, and an unreadable object with the given key.
    """
    tables = {resource.id: Table(resource) for resource in (PODS, NODES, REPLICASETS)}
    writers = {resource_id: table.claim() for resource_id, table in tables.items()}
    for version, given in enumerate((owned("a", "u1"), pod("orphan")), start=5):
        obj = stored(given, version)
        writers[PODS.id].put(tables[PODS.id].make_entry(obj, encode_object(obj)))
    writers[resource.id].mark(Unreadable(key, "uid-x", 9, "strange", owner))
    return Tables(tables)


U1, U2, NOBODY, UNKNOWN = "u1", "u2", "", None


@pytest.mark.parametrize(
    ("resource", "key", "owner", "command", "waits"),
    [
        (PODS, "default/x", U1, create(PODS, owned("b", "u1")), True),
        (PODS, "default/x", U2, create(PODS, owned("b", "u1")), False),
        (PODS, "default/x", NOBODY, create(PODS, owned("b", "u1")), True),
        (PODS, "default/x", UNKNOWN, create(PODS, owned("b", "u1")), True),
        (PODS, "other/x", U1, create(PODS, owned("b", "u1")), False),
        (PODS, "default/x", U2, create(PODS, pod("b")), True),
        (NODES, "n1", NOBODY, create(PODS, owned("b", "u1")), False),
        (PODS, "default/x", U1, patch(PODS, "default/x", {}), False),
        (PODS, "default/a", U2, delete(PODS, "default/a", depends_on=()), True),
        (PODS, "default/x", U1, delete(PODS, "default/a"), True),
        (PODS, "default/x", U2, delete(PODS, "default/a"), False),
        (PODS, "default/x", U2, delete(PODS, "default/orphan"), True),
        (PODS, "other/x", U1, delete(PODS, "default/a"), False),
        (NODES, "n1", NOBODY, delete(PODS, "default/a"), True),
        (NODES, "n1", NOBODY, delete(PODS, "default/a", depends_on=(PODS,)), False),
        (NODES, "n1", NOBODY, delete(PODS, "default/a", depends_on=(PODS, (NODES, "n1"))), True),
        (NODES, "n1", NOBODY, delete(PODS, "default/a", depends_on=(PODS, (NODES, "n2"))), False),
        (REPLICASETS, "default/web", NOBODY, delete(PODS, "default/a"), True),
        (REPLICASETS, "other/web", NOBODY, delete(PODS, "default/a"), False),
        (PODS, "default/x", NOBODY, delete(NODES, "n1"), True),
        (PODS, "default/x", NOBODY, DeleteCollection(PODS.id, "default"), True),
        (PODS, "other/x", NOBODY, DeleteCollection(PODS.id, "default"), False),
    ],
)
def test_writes_wait_for_unreadable_objects(
    resource: Resource, key: str, owner: str | None, command: Command, waits: bool
) -> None:
    tables = tables_with(resource, key, owner)
    if waits:
        with pytest.raises(UnreadableError, match=f"{resource} {key} cannot be read: strange"):
            check_readable(tables, [command])
    else:
        check_readable(tables, [command])
