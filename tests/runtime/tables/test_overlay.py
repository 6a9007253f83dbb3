"""An overlay shows a controller its own writes until the table has reached them."""

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


def test_an_own_creation_shows_before_the_watch_does(table: Table, writer: TableWriter, overlay: Overlay) -> None:
    writer.replace([], 10)
    overlay.wrote(encode_object(pod("new", version=12, owner=owned_by("u"))))
    assert keys(overlay.indexed("owner", "u")) == ["default/new"]
    assert overlay.get("default/new") is not None
    assert table.get("default/new") is None
    put(writer, pod("new", version=12, owner=owned_by("u")))
    assert keys(overlay.indexed("owner", "u")) == ["default/new"]
    assert len(overlay) == 0


def answer(version: int, *, uid: str = "uid-a", more: str = "") -> bytes:
    """As kube-apiserver writes a pod default/a."""
    meta = f'"name":"a","namespace":"default","uid":"{uid}","resourceVersion":"{version}"{more}'
    return f'{{"kind":"Pod","apiVersion":"v1","metadata":{{{meta}}},"spec":{{}}}}'.encode()


def test_of_a_write_that_the_table_shows_already_nothing_is_kept(
    table: Table, writer: TableWriter, overlay: Overlay
) -> None:
    put(writer, pod("a", version=12))
    for version in (12, 11):
        assert overlay.wrote(answer(version)) is table.get("default/a")
    assert len(overlay) == 0
    assert overlay.wrote(answer(13)).resource_version == 13
    assert overlay.wrote(answer(14, uid="another")).uid == "another"


def test_an_answer_that_shows_the_end_of_an_object_hides_it_though_the_table_shows_the_same(
    writer: TableWriter, overlay: Overlay
) -> None:
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    put(writer, pod("a", version=12, metadata=going))
    more = ',"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":0'
    overlay.wrote(answer(12, more=more))
    assert overlay.get("default/a") is None


def test_once_the_table_has_passed_our_write_it_takes_precedence(writer: TableWriter, overlay: Overlay) -> None:
    """Made and deleted by somebody before we looked: the table has seen both, and shows nothing."""
    writer.replace([], 10)
    overlay.wrote(encode_object(pod("new", version=12)))
    writer.advance(13)
    assert overlay.get("default/new") is None
    assert overlay.entries() == []


def test_an_own_update_hides_the_older_state_in_every_index(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", version=5))
    overlay.wrote(encode_object(pod("a", version=8, owner=owned_by("u"))))
    assert keys(overlay.indexed("owner", "u")) == ["default/a"]
    assert keys(overlay.indexed("owner", "orphans of default")) == []
    put(writer, pod("a", version=9))
    assert keys(overlay.indexed("owner", "orphans of default")) == ["default/a"]


def test_what_we_wrote_is_not_kept_decoded_once_it_is_in_the_past(
    table: Table, writer: TableWriter, overlay: Overlay
) -> None:
    writer.replace([], 10)
    first = overlay.wrote(encode_object(pod("a", version=12)))
    table.object_of(first)
    second = overlay.wrote(encode_object(pod("a", version=13)))
    table.object_of(second)
    assert (first.decoded, second.decoded is None) == (None, False)
    put(writer, pod("a", version=13))
    overlay.prune()
    assert second.decoded is None


def test_an_own_deletion_hides_that_object_and_not_its_namesake(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", version=5))
    overlay.deleted("default/a", "uid-a")
    assert overlay.get("default/a") is None
    assert overlay.entries() == []
    put(writer, pod("a", version=7, metadata={"uid": "another"}))
    found = overlay.get("default/a")
    assert found is not None
    assert found.uid == "another"


def test_what_was_made_and_deleted_before_the_watch_saw_it_stays_hidden_while_it_comes_and_goes(
    writer: TableWriter, overlay: Overlay
) -> None:
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


def test_a_graceful_deletion_shows_the_object_as_terminating(writer: TableWriter, overlay: Overlay) -> None:
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


def test_after_the_servers_versions_went_back_our_writes_are_dropped(writer: TableWriter, overlay: Overlay) -> None:
    writer.replace([], 100)
    overlay.wrote(encode_object(pod("a", version=120)))
    writer.replace([], 40)
    assert overlay.get("default/a") is None


def test_a_write_that_the_table_has_passed_is_not_kept(writer: TableWriter, overlay: Overlay) -> None:
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
