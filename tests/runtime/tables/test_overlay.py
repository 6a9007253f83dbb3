"""An overlay adds a controller's own writes to its table until the table contains them."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import encode_object
from kcm.protocols.resources import PODS
from kcm.runtime.tables.overlay import Overlay
from kcm.runtime.tables.table import Table, TableWriter
from kcm.runtime.tables.tables import Tables
from tests.runtime.tables.conftest import keys, put
from tests.support.objects import owned_by, pod


@pytest.fixture
def overlay(table: Table) -> Overlay:
    return Overlay(table)


def test_own_creation_is_visible_before_the_watch_event(table: Table, writer: TableWriter, overlay: Overlay) -> None:
    writer.replace([], 10)
    overlay.wrote(encode_object(pod("new", version=12, owner=owned_by("u"))))
    assert keys(overlay.indexed("owner", "u")) == ["default/new"]
    assert overlay.get("default/new") is not None
    assert table.get("default/new") is None
    put(writer, pod("new", version=12, owner=owned_by("u")))
    assert keys(overlay.indexed("owner", "u")) == ["default/new"]
    assert len(overlay) == 0


def response_body(version: int, *, uid: str = "uid-a", more: str = "") -> bytes:
    """Return the pod default/a in the form that kube-apiserver writes."""
    meta = f'"name":"a","namespace":"default","uid":"{uid}","resourceVersion":"{version}"{more}'
    return f'{{"kind":"Pod","apiVersion":"v1","metadata":{{{meta}}},"spec":{{}}}}'.encode()


def test_write_that_the_table_contains_is_not_kept(table: Table, writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", version=12))
    for version in (12, 11):
        assert overlay.wrote(response_body(version)) is table.get("default/a")
    assert len(overlay) == 0
    assert overlay.wrote(response_body(13)).resource_version == 13
    assert overlay.wrote(response_body(14, uid="another")).uid == "another"


def test_response_with_elapsed_grace_period_hides_the_object(writer: TableWriter, overlay: Overlay) -> None:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    put(writer, pod("a", version=12, metadata=going))
    more = ',"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0'
    overlay.wrote(response_body(12, more=more))
    assert overlay.get("default/a") is None


def test_newer_table_overrides_an_own_write(writer: TableWriter, overlay: Overlay) -> None:
    """The object was deleted by another client, and the table has processed both changes."""
    writer.replace([], 10)
    overlay.wrote(encode_object(pod("new", version=12)))
    writer.advance(13)
    assert overlay.get("default/new") is None
    assert overlay.entries() == []


def test_own_update_replaces_the_older_state_in_every_index(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", version=5))
    overlay.wrote(encode_object(pod("a", version=8, owner=owned_by("u"))))
    assert keys(overlay.indexed("owner", "u")) == ["default/a"]
    assert keys(overlay.indexed("owner", "orphans of default")) == []
    put(writer, pod("a", version=9))
    assert keys(overlay.indexed("owner", "orphans of default")) == ["default/a"]


def test_outdated_own_write_is_not_kept_decoded(table: Table, writer: TableWriter, overlay: Overlay) -> None:
    writer.replace([], 10)
    first = overlay.wrote(encode_object(pod("a", version=12)))
    table.object_of(first)
    second = overlay.wrote(encode_object(pod("a", version=13)))
    table.object_of(second)
    assert (first.decoded, second.decoded is None) == (None, False)
    put(writer, pod("a", version=13))
    overlay.prune()
    assert second.decoded is None


def test_own_deletion_hides_only_the_object_with_that_uid(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", version=5))
    overlay.deleted("default/a", "uid-a")
    assert overlay.get("default/a") is None
    assert overlay.entries() == []
    put(writer, pod("a", version=7, metadata={"uid": "another"}))
    found = overlay.get("default/a")
    assert found is not None
    assert found.uid == "another"


def test_object_created_and_deleted_before_its_watch_events_stays_hidden(writer: TableWriter, overlay: Overlay) -> None:
    writer.replace([], 10)
    overlay.wrote(encode_object(pod("a", version=12)))
    overlay.deleted("default/a", "uid-a")
    assert overlay.entries() == []
    writer.advance(11)
    assert overlay.entries() == []
    put(writer, pod("a", version=12))
    assert overlay.entries() == [], "late news of its creation"
    writer.remove("default/a", 14)
    assert overlay.entries() == []
    overlay.prune()
    assert len(overlay) == 0


def test_gracefully_deleted_object_is_terminating(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", version=5))
    going = pod(
        "a", version=6, metadata={"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    )
    overlay.wrote(encode_object(going))
    shown = overlay.get("default/a")
    assert shown is not None
    assert shown.resource_version == 6


def test_an_immediate_deletion_hides_the_object(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", version=5))
    gone = pod("a", version=6, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0})
    overlay.wrote(encode_object(gone))
    assert overlay.get("default/a") is None


def test_own_writes_are_dropped_when_the_servers_versions_decrease(writer: TableWriter, overlay: Overlay) -> None:
    writer.replace([], 100)
    overlay.wrote(encode_object(pod("a", version=120)))
    writer.replace([], 40)
    assert overlay.get("default/a") is None


def test_write_older_than_the_table_is_not_kept(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", version=9))
    overlay.wrote(encode_object(pod("a", version=7)))
    assert len(overlay) == 0


def test_listers_return_decoded_objects(table: Table, writer: TableWriter) -> None:
    put(writer, pod("a", version=1, owner=owned_by("u")))
    put(writer, pod("b", version=2))
    pods = Tables({PODS.id: table})[PODS]
    assert pods.get("default/none") is None
    assert [obj["metadata"]["name"] for obj in pods.owned_by("u")] == ["a"]
    assert [obj["metadata"]["name"] for obj in pods.orphans("default")] == ["b"]
    assert sorted(obj["metadata"]["name"] for obj in pods.objects("default")) == ["a", "b"]
    assert pods.objects("elsewhere") == []
