"""Tables have one writer and many readers; an overlay shows a controller its own writes."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.objects import OwnerRef, encode_object
from protocols.resources import PODS
from runtime.tables.overlay import Overlay, Tables
from runtime.tables.table import Entry, StaleWriterError, Table, TableWriter


def pod(name: str, version: int, *, owner: str = "", uid: str = "", **meta: Any) -> dict[str, Any]:
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": owner, "controller": True}]
    return {
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            **({"ownerReferences": owners} if owner else {}),
            **meta,
        }
    }


def entry(table: Table, obj: dict[str, Any]) -> Entry:
    return table.make_entry(obj, encode_object(obj))


def put(writer: TableWriter, obj: dict[str, Any]) -> None:
    writer.put(entry(writer.table, obj))


@pytest.fixture
def table() -> Table:
    return Table(PODS, indexes={"node": lambda obj: (obj.get("spec", {}).get("nodeName") or "",)}, decoded_bound=2)


@pytest.fixture
def writer(table: Table) -> TableWriter:
    return table.claim()


def keys(entries: list[Entry]) -> list[str]:
    return sorted(one.key for one in entries)


def test_indexes_follow_every_change(table: Table, writer: TableWriter) -> None:
    put(writer, pod("a", 1, owner="u1"))
    put(writer, pod("b", 2))
    assert keys(table.indexed("owner", "u1")) == ["d/a"]
    assert keys(table.indexed("owner", "orphans of d")) == ["d/b"]
    put(writer, pod("a", 3, owner="u2"))
    assert keys(table.indexed("owner", "u1")) == []
    assert keys(table.indexed("owner", "u2")) == ["d/a"]
    writer.remove("d/a", 4)
    assert keys(table.indexed("owner", "u2")) == []
    assert keys(table.indexed("namespace", "d")) == ["d/b"]
    assert keys(table.indexed("node", "")) == ["d/b"]


def test_a_list_replaces_everything_at_once(table: Table, writer: TableWriter) -> None:
    put(writer, pod("a", 1, owner="u1"))
    writer.replace([entry(table, pod("b", 5))], 9)
    assert keys(table.entries()) == ["d/b"]
    assert table.indexed("owner", "u1") == []
    assert (table.version, table.synced, table.epoch) == (9, True, 0)


def test_versions_that_go_backwards_begin_a_new_epoch(table: Table, writer: TableWriter) -> None:
    writer.replace([], 100)
    writer.replace([], 40)
    assert (table.version, table.epoch) == (40, 1)


def test_an_old_writer_is_shut_out(table: Table, writer: TableWriter) -> None:
    table.claim()
    for write in (
        lambda: writer.put(entry(table, pod("a", 1))),
        lambda: writer.remove("d/a", 2),
        lambda: writer.replace([], 1),
        lambda: writer.advance(7),
        lambda: writer.touch(7.0),
    ):
        with pytest.raises(StaleWriterError):
            write()
    assert table.entries() == []


def test_only_so_many_decoded_objects_are_kept(table: Table, writer: TableWriter) -> None:
    for i in range(4):
        put(writer, pod(f"p{i}", i + 1))
    for one in table.entries():
        assert table.object_of(one)["metadata"]["name"] in one.key
    assert sum(1 for one in table.entries() if one.decoded is not None) == 2


@pytest.mark.parametrize(
    "meta",
    [
        {"namespace": "d", "resourceVersion": "1"},
        {"name": "a", "namespace": "d"},
        {"name": "a", "namespace": "d", "resourceVersion": "x"},
        {"name": "a", "namespace": "d", "resourceVersion": 7},
    ],
)
def test_an_object_without_identity_is_no_entry(table: Table, meta: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="metadata"):
        table.make_entry({"metadata": meta}, b"{}")


def test_the_pods_of_one_owner_share_its_reference(table: Table) -> None:
    one, other = entry(table, pod("a", 1, owner="u")), entry(table, pod("b", 2, owner="u"))
    assert one.controller is other.controller == OwnerRef("apps/v1", "ReplicaSet", "rs", "u")


# The overlay.


@pytest.fixture
def overlay(table: Table) -> Overlay:
    return Overlay(table)


def test_an_own_creation_shows_before_the_watch_does(table: Table, writer: TableWriter, overlay: Overlay) -> None:
    writer.replace([], 10)
    overlay.wrote(encode_object(pod("new", 12, owner="u")))
    assert keys(overlay.indexed("owner", "u")) == ["d/new"]
    assert overlay.get("d/new") is not None
    assert table.get("d/new") is None
    put(writer, pod("new", 12, owner="u"))
    assert keys(overlay.indexed("owner", "u")) == ["d/new"]
    assert len(overlay) == 0


def test_once_the_table_has_passed_our_write_its_word_counts(writer: TableWriter, overlay: Overlay) -> None:
    """Made and deleted by somebody before we looked: the table has seen both, and shows nothing."""
    writer.replace([], 10)
    overlay.wrote(encode_object(pod("new", 12)))
    writer.advance(13)
    assert overlay.get("d/new") is None
    assert overlay.entries() == []


def test_an_own_update_hides_the_older_state_in_every_index(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", 5))
    overlay.wrote(encode_object(pod("a", 8, owner="u")))
    assert keys(overlay.indexed("owner", "u")) == ["d/a"]
    assert keys(overlay.indexed("owner", "orphans of d")) == []
    put(writer, pod("a", 9))
    assert keys(overlay.indexed("owner", "orphans of d")) == ["d/a"]


def test_an_own_deletion_hides_that_object_and_not_its_namesake(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", 5))
    overlay.deleted("d/a", "uid-a")
    assert overlay.get("d/a") is None
    assert overlay.entries() == []
    put(writer, pod("a", 7, uid="another"))
    found = overlay.get("d/a")
    assert found is not None
    assert found.uid == "another"


def test_what_was_made_and_deleted_before_the_watch_saw_it_stays_hidden_while_it_comes_and_goes(
    writer: TableWriter, overlay: Overlay
) -> None:
    writer.replace([], 10)
    overlay.wrote(encode_object(pod("a", 12)))
    overlay.deleted("d/a", "uid-a")
    assert overlay.entries() == []
    writer.advance(11)
    assert overlay.entries() == []
    put(writer, pod("a", 12))
    assert overlay.entries() == [], "late news of its creation"
    writer.remove("d/a", 14)
    assert overlay.entries() == []
    overlay.prune()
    assert len(overlay) == 0


def test_the_answer_to_a_graceful_deletion_shows_it_as_terminating(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", 5))
    going = pod("a", 6, deletionTimestamp="2026-01-01T00:00:30Z", deletionGracePeriodSeconds=30)
    overlay.wrote(encode_object(going))
    shown = overlay.get("d/a")
    assert shown is not None
    assert shown.resource_version == 6


def test_the_answer_to_an_immediate_deletion_buries_it(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", 5))
    gone = pod("a", 6, deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=0)
    overlay.wrote(encode_object(gone))
    assert overlay.get("d/a") is None


def test_a_server_that_was_set_back_makes_what_we_remember_worthless(writer: TableWriter, overlay: Overlay) -> None:
    writer.replace([], 100)
    overlay.wrote(encode_object(pod("a", 120)))
    writer.replace([], 40)
    assert overlay.get("d/a") is None


def test_an_older_answer_than_the_table_is_not_kept(writer: TableWriter, overlay: Overlay) -> None:
    put(writer, pod("a", 9))
    overlay.wrote(encode_object(pod("a", 7)))
    assert len(overlay) == 0


def test_listers_decode_what_they_hand_out(table: Table, writer: TableWriter) -> None:
    put(writer, pod("a", 1, owner="u"))
    put(writer, pod("b", 2))
    pods = Tables({PODS.id: table})[PODS]
    assert pods.get("d/none") is None
    assert [obj["metadata"]["name"] for obj in pods.owned_by("u")] == ["a"]
    assert [obj["metadata"]["name"] for obj in pods.orphans("d")] == ["b"]
    assert sorted(obj["metadata"]["name"] for obj in pods.objects("d")) == ["a", "b"]
    assert pods.objects("elsewhere") == []
