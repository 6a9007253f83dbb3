"""A table has one writer and many readers."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import OwnerRef
from kcm.protocols.resources import PODS
from kcm.runtime.tables.table import SPARE, StaleWriterError, Table, TableWriter
from tests.runtime.tables.conftest import entry, keys, put
from tests.support.objects import owned_by, pod


def test_indexes_follow_every_change(table: Table, writer: TableWriter) -> None:
    put(writer, pod("a", version=1, owner=owned_by("u1")))
    put(writer, pod("b", version=2))
    assert keys(table.indexed("owner", "u1")) == ["default/a"]
    assert keys(table.indexed("owner", "orphans of default")) == ["default/b"]
    put(writer, pod("a", version=3, owner=owned_by("u2")))
    assert keys(table.indexed("owner", "u1")) == []
    assert keys(table.indexed("owner", "u2")) == ["default/a"]
    writer.remove("default/a", 4)
    assert keys(table.indexed("owner", "u2")) == []
    assert keys(table.indexed("namespace", "default")) == ["default/b"]
    assert keys(table.indexed("node", "")) == ["default/b"]


def test_a_list_replaces_everything_at_once(table: Table, writer: TableWriter) -> None:
    put(writer, pod("a", version=1, owner=owned_by("u1")))
    writer.replace([entry(table, pod("b", version=5))], 9)
    assert keys(table.entries()) == ["default/b"]
    assert table.indexed("owner", "u1") == []
    assert (table.version, table.synced, table.epoch) == (9, True, 0)


def test_decreasing_version_begins_a_new_epoch(table: Table, writer: TableWriter) -> None:
    writer.replace([], 100)
    writer.replace([], 40)
    assert (table.version, table.epoch) == (40, 1)


def test_replaced_writer_cannot_write(table: Table, writer: TableWriter) -> None:
    table.claim()
    for write in (
        lambda: writer.put(entry(table, pod("a", version=1))),
        lambda: writer.remove("default/a", 2),
        lambda: writer.replace([], 1),
        lambda: writer.advance(7),
        lambda: writer.touch(7.0),
    ):
        with pytest.raises(StaleWriterError):
            write()
    assert table.entries() == []


def test_number_of_decoded_objects_is_limited(table: Table, writer: TableWriter) -> None:
    for i in range(4):
        put(writer, pod(f"p{i}", version=i + 1))
    for table_entry in table.entries():
        assert table.object_of(table_entry)["metadata"]["name"] in table_entry.key
    assert sum(1 for table_entry in table.entries() if table_entry.decoded is not None) == 2


def test_replaced_and_deleted_entries_are_not_kept_decoded(table: Table, writer: TableWriter) -> None:
    """Decoded versions of an Endpoints object with a thousand addresses would take ten megabytes."""
    before = []
    for name in ("changed", "deleted"):
        put(writer, pod(name, version=1))
        before.append(table.entries()[-1])
        table.object_of(before[-1])
    put(writer, pod("changed", version=3))
    writer.remove("default/deleted", 4)
    assert [entry.decoded for entry in before] == [None, None]
    (shown,) = table.entries()
    table.object_of(shown)
    writer.replace([entry(table, pod("changed", version=3))], 9)
    assert shown.decoded is None


@pytest.mark.parametrize(
    "meta",
    [
        {"namespace": "d", "resourceVersion": "1"},
        {"name": "a", "namespace": "d"},
        {"name": "a", "namespace": "d", "resourceVersion": "x"},
        {"name": "a", "namespace": "d", "resourceVersion": 7},
    ],
)
def test_object_without_identity_is_rejected(table: Table, meta: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="metadata"):
        table.make_entry({"metadata": meta}, b"{}")


@pytest.mark.parametrize("finalizers", [{"a": "b"}, [1], "example.com/track"])
def test_invalid_finalizers_are_reported(table: Table, finalizers: Any) -> None:
    obj = pod("a", version=1)
    with pytest.raises(ValueError, match=r"metadata\.finalizers(\[0\])? is a (list|string), got"):
        entry(table, {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}})


def test_owners_of_deleted_pods_are_not_kept(table: Table, writer: TableWriter) -> None:
    writer.replace([], 1)
    first = entry(table, pod("p", version=2, owner=owned_by("u"))).controller
    for number in range(SPARE + 10):
        put(writer, pod("p", version=number + 3, owner=owned_by(f"u{number}")))
    again = entry(table, pod("p", version=9 * SPARE, owner=owned_by("u"))).controller
    assert again == first
    assert again is not first


def test_pods_share_the_reference_to_the_same_owner(table: Table) -> None:
    first, second = (
        entry(table, pod("a", version=1, owner=owned_by("u"))),
        entry(table, pod("b", version=2, owner=owned_by("u"))),
    )
    assert first.controller is second.controller == OwnerRef("apps/v1", "ReplicaSet", "rs", "u")


def test_index_is_added_once_and_before_the_first_entry() -> None:
    table = Table(PODS)

    def phases(obj: Any) -> tuple[str, ...]:
        return (obj.get("status", {}).get("phase", ""),)

    table.add_indexes({"phase": phases})
    table.add_indexes({"phase": phases})
    with pytest.raises(ValueError, match="two different indexes of pods are named 'phase'"):
        table.add_indexes({"phase": lambda _obj: ()})
    put(table.claim(), {**pod("a", version=1), "status": {"phase": "Running"}})
    assert keys(table.indexed("phase", "Running")) == ["default/a"]
    with pytest.raises(ValueError, match="is in use"):
        table.add_indexes({"phase": phases})


def test_unknown_index_is_rejected_with_the_known_ones() -> None:
    table = Table(PODS, indexes={"node": lambda _pod: ()})
    assert table.indexed("node", "n1") == []
    with pytest.raises(LookupError, match="pods have no index 'nod', but 'node', 'namespace', 'owner'"):
        table.indexed("nod", "n1")
