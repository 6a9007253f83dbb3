from __future__ import annotations

import json
from typing import Any

import pytest

from kcm.actors.console.story import changes_of, concerns, event_entry, related, seconds, summary_of, table_of_kind
from kcm.protocols.messages.commands import Create, Update
from kcm.protocols.messages.outcomes import Conflict, Done
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS
from kcm.runtime.tables.table import Table
from tests.actors.console.test_cluster import table_of

TIME = "2026-01-02T03:04:05Z"


def thing(name: str, *, owner: str = "", kind: str = "") -> dict[str, Any]:
    meta: dict[str, Any] = {"namespace": "shop", "name": name, "uid": f"uid of {name}", "resourceVersion": "5"}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": f"uid of {owner}", "controller": True}
        meta["ownerReferences"] = [reference]
    return {"metadata": meta}


@pytest.fixture
def tables() -> dict[str, Table]:
    return {
        DEPLOYMENTS.id: table_of(DEPLOYMENTS, thing("web")),
        REPLICASETS.id: table_of(REPLICASETS, thing("web-1", owner="web", kind="Deployment")),
        PODS.id: table_of(PODS, *(thing(name, owner="web-1", kind="ReplicaSet") for name in ("web-1-a", "web-1-b"))),
    }


@pytest.mark.parametrize("kind", ["Deployment", "deployment", "deployments", "deployments.apps"])
def test_kinds_are_found_by_name_and_plural(tables: dict[str, Table], kind: str) -> None:
    assert table_of_kind(tables, kind) is tables[DEPLOYMENTS.id]


@pytest.mark.parametrize("kind", ["", "Fire", "deployments.batch"])
def test_kind_without_a_table_is_an_error(tables: dict[str, Table], kind: str) -> None:
    with pytest.raises(LookupError):
        table_of_kind(tables, kind)


@pytest.mark.parametrize(
    "resource, key, edges",
    [
        (DEPLOYMENTS, "shop/web", {("web", "web-1"), ("web-1", "web-1-a"), ("web-1", "web-1-b")}),
        (REPLICASETS, "shop/web-1", {("web", "web-1"), ("web-1", "web-1-a"), ("web-1", "web-1-b")}),
        (PODS, "shop/web-1-b", {("web-1", "web-1-b"), ("web", "web-1")}),
    ],
)
def test_owners_and_dependents_are_related(tables: dict[str, Table], resource: Any, key: str, edges: Any) -> None:
    table = tables[resource.id]
    found = related(tables, table, table.get(key))
    names = {node["id"]: node["name"] for node in found["nodes"]}
    assert {(names[parent], names[child]) for parent, child in found["edges"]} == edges
    assert related(tables, table, None) == {"nodes": [], "edges": []}


def test_object_shows_its_past_but_not_its_data() -> None:
    obj = {
        "metadata": {
            "creationTimestamp": TIME,
            "managedFields": [{"manager": "kubectl", "operation": "Update", "time": TIME, "subresource": "scale"}],
        },
        "data": {"password": "c2VjcmV0"},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Why", "lastTransitionTime": TIME}]},
    }
    changes = list(changes_of(obj))
    assert [change["title"] for change in changes] == [
        "created",
        "update of scale by kubectl",
        "condition Ready is False",
    ]
    assert "c2VjcmV0" not in json.dumps([changes, summary_of(obj)])


def test_event_is_shown_at_its_last_occurrence() -> None:
    event = {
        "type": "Warning",
        "reason": "Failed",
        "message": "no",
        "count": 3,
        "lastTimestamp": TIME,
        "source": {"component": "x"},
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
    }
    shown = event_entry(event)
    assert shown["at"] == seconds(TIME)
    assert (shown["title"], shown["who"], shown["bad"]) == ("Failed: no (3 times)", "x", True)


def test_command_concerns_its_object_and_a_creation_the_dependents_of_its_owner() -> None:
    update = (Update, ("v1/pods", "shop/a", "status"), Conflict, "no")
    create = (Create, ("v1/pods", "shop", ""), Done, "")
    assert concerns(update, "v1/pods", "shop/a", created_by_owner=False)
    assert not concerns(update, "v1/pods", "shop/b", created_by_owner=True)
    assert not concerns(update, "v1/secrets", "shop/a", created_by_owner=True)
    assert concerns(create, "v1/pods", "shop/a", created_by_owner=True)
    assert not concerns(create, "v1/pods", "shop/a", created_by_owner=False)
    assert not concerns(create, "v1/pods", "other/a", created_by_owner=True)
