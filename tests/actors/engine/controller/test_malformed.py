"""Errors of reconciliations that read malformed objects name the object and its field."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.engine.controller.malformed import MalformedObjectError, MalformedObjects
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import CONFIGMAPS, PODS, Resource
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables

WEB, OTHER = "default/web", "default/other"


def tables_with(*objects: tuple[Resource, str, Any]) -> Tables:
    """Return tables with objects of a name and a `spec` (pods) or `data` (ConfigMaps)."""
    made = {resource.id: Table(resource) for resource in (PODS, CONFIGMAPS)}
    writers = {id: table.claim() for id, table in made.items()}
    for version, (resource, name, content) in enumerate(objects, 1):
        meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
        obj: Object = {"metadata": meta, "spec" if resource is PODS else "data": content}
        writers[resource.id].put(made[resource.id].make_entry(obj, encode_object(obj)))
    return Tables(made)


def explained(tables: Tables, err: Exception, key: str = WEB) -> Exception:
    return MalformedObjects(tables).explained(err, key, [PODS.id])


@pytest.mark.parametrize("err", [TypeError("x"), AttributeError("x"), KeyError("x"), IndexError("x")])
def test_accidental_error_names_the_malformed_object_of_the_key(err: Exception) -> None:
    tables = tables_with((PODS, "web", {"volumes": 3}), (CONFIGMAPS, "other", {"a": 1}))
    tables[CONFIGMAPS].get(OTHER)
    found = explained(tables, err)
    assert isinstance(found, MalformedObjectError)
    assert (str(found), found.__cause__) == ("Pod default/web: spec.volumes is a list, got 3", err)


def test_accidental_error_names_other_malformed_objects_that_were_read() -> None:
    tables = tables_with((PODS, "web", {"containers": []}), (CONFIGMAPS, "other", {"a": 1}), (CONFIGMAPS, "unread", 1))
    tables[CONFIGMAPS].get(OTHER)
    assert str(explained(tables, TypeError("x"))) == "ConfigMap default/other: data['a'] is a string, got 1"


def test_error_of_well_formed_objects_is_unchanged() -> None:
    tables = tables_with((PODS, "web", {"containers": []}), (CONFIGMAPS, "other", {"a": "b"}))
    tables[CONFIGMAPS].get(OTHER)
    err = TypeError("a bug")
    assert explained(tables, err) is err


def test_deliberate_errors_are_not_replaced() -> None:
    tables = tables_with((PODS, "web", {"volumes": 3}))
    err = ValueError("not a number")
    assert explained(tables, err) is err
    assert err.__notes__ == ["Pod default/web: spec.volumes is a list, got 3"]
    held_back = RuntimeError("held back")
    assert explained(tables, held_back) is held_back


def test_each_version_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tables_with((PODS, "web", {"volumes": 3}))
    malformed = MalformedObjects(tables)
    first = str(malformed.explained(TypeError("x"), WEB, [PODS.id]))
    monkeypatch.setattr("kcm.actors.engine.controller.malformed.malformed_object", lambda *_, **__: "checked again")
    assert str(malformed.explained(TypeError("x"), WEB, [PODS.id])) == first
