"""A view contains the selected objects of its tables, with the controller's own writes added."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PODS
from kcm.runtime.tables.entry import unreadable
from kcm.runtime.tables.overlay import ViewOverlay
from kcm.runtime.tables.selection import Selection, read_selection
from kcm.runtime.tables.table import Table, TableWriter
from kcm.runtime.tables.view import Part, View, mark_of, marks
from tests.runtime.tables.conftest import put
from tests.support.objects import pod

WEB = read_selection(PODS, labels="app=web", fields="", namespaces=None, metadata_only=False)
HERE = read_selection(PODS, labels="app=web", fields="", namespaces=("default", "other"), metadata_only=False)


def labelled(version: int, app: str = "web", name: str = "a", namespace: str = "default", **meta: Any) -> Object:
    return pod(name, version=version, metadata={"labels": {"app": app}, "namespace": namespace, **meta})


def shared(selection: Selection) -> tuple[View, TableWriter]:
    """Return a view of a table of all pods."""
    mark = mark_of(selection)
    table = Table(PODS, indexes={mark: marks(selection, Selection())})
    writer = table.claim()
    writer.replace([], 1)
    return View(PODS, selection, [Part(table, "", mark)]), writer


def own(selection: Selection) -> tuple[View, TableWriter]:
    """Return a view of a table that contains only what the server selects."""
    table = Table(PODS, selection=selection)
    writer = table.claim()
    writer.replace([], 1)
    return View(PODS, selection, [Part(table, "", "")]), writer


@pytest.mark.parametrize("make", [shared, own])
def test_object_that_leaves_the_selection_is_hidden_until_it_returns(make: Any) -> None:
    view, writer = make(WEB)
    overlay = ViewOverlay(view)
    put(writer, labelled(2))
    assert overlay.get("default/a") is not None
    overlay.wrote(encode_object(labelled(3, "db")))
    assert overlay.get("default/a") is None
    assert overlay.entries() == []
    overlay.prune()
    assert overlay.get("default/a") is None, "the table is late"
    overlay.wrote(encode_object(labelled(4)))
    assert [entry.resource_version for entry in overlay.entries()] == [4]
    overlay.wrote(encode_object(labelled(5, "db")))
    put(writer, labelled(6))  # another client added the label again
    assert [entry.resource_version for entry in overlay.entries()] == [6]
    overlay.prune()
    assert len(overlay) == 0


@pytest.mark.parametrize("make", [shared, own])
def test_own_creation_outside_of_the_selection_is_never_visible(make: Any) -> None:
    view, writer = make(HERE)
    overlay = ViewOverlay(view)
    overlay.wrote(encode_object(labelled(3, "db")))
    overlay.wrote(encode_object(labelled(4, namespace="elsewhere")))
    overlay.wrote(encode_object(labelled(5, name="b", namespace="other")))
    assert [entry.key for entry in overlay.entries()] == ["other/b"]
    assert overlay.get("elsewhere/a") is None
    writer.advance(9)
    overlay.prune()
    assert [change.before and change.before.key for change in overlay.unseen] == ["other/b"], (
        "deleted before the watch event"
    )


def test_each_namespace_has_its_own_version() -> None:
    views = [own(read_selection(PODS, labels="", fields="", namespaces=(ns,), metadata_only=False)) for ns in "ab"]
    selection = read_selection(PODS, labels="", fields="", namespaces=("a", "b"), metadata_only=False)
    view = View(
        PODS, selection, [Part(part.parts[0].table, name, "") for name, (part, _) in zip("ab", views, strict=True)]
    )
    overlay = ViewOverlay(view)
    overlay.wrote(encode_object(labelled(5, namespace="a")))
    views[0][1].advance(6)  # the pod was deleted, and the watch of its namespace has passed that version
    assert overlay.get("a/a") is None
    assert view.version == 1, "the other one has not"
    views[1][1].touch(7.0)
    assert view.age(9.0) is None
    views[0][1].touch(8.0)
    assert view.age(9.0) == 2.0


def test_unreadable_object_is_in_views_that_may_select_it() -> None:
    view, writer = shared(WEB)
    table = view.parts[0].table
    for name, labels in (("web", {"app": "web"}), ("db", {"app": "db"}), ("odd", ["app"])):
        obj = pod(name, version=5, metadata={"labels": labels})
        found = unreadable(obj, "odd", namespaced=True, values=table.values_of_unreadable(obj))
        assert found is not None
        writer.mark(found)
    assert sorted(obj.key for obj in view.unreadable()) == ["default/odd", "default/web"]
    assert view.unreadable_at("default/db") is None
    assert view.has_unreadable
