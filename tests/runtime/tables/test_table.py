"""A table has one writer and many readers."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import OwnerRef
from kcm.protocols.resources import PODS
from kcm.runtime.tables.table import StaleWriterError, Table, TableWriter
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


def test_versions_that_go_backwards_begin_a_new_epoch(table: Table, writer: TableWriter) -> None:
    writer.replace([], 100)
    writer.replace([], 40)
    assert (table.version, table.epoch) == (40, 1)


def test_an_old_writer_can_write_no_more(table: Table, writer: TableWriter) -> None:
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


def test_only_so_many_decoded_objects_are_kept(table: Table, writer: TableWriter) -> None:
    for i in range(4):
        put(writer, pod(f"p{i}", version=i + 1))
    for one in table.entries():
        assert table.object_of(one)["metadata"]["name"] in one.key
    assert sum(1 for one in table.entries() if one.decoded is not None) == 2


def test_what_a_table_no_longer_shows_is_not_kept_decoded(table: Table, writer: TableWriter) -> None:
    """Else the last versions of an Endpoints object with a thousand addresses are ten megabytes."""
    before = []
    for name in ("changed", "deleted"):
        put(writer, pod(name, version=1))
        before.append(table.entries()[-1])
        table.object_of(before[-1])
    put(writer, pod("changed", version=3))
    writer.remove("default/deleted", 4)
    assert [one.decoded for one in before] == [None, None]
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
def test_an_object_without_identity_is_no_entry(table: Table, meta: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="metadata"):
        table.make_entry({"metadata": meta}, b"{}")


@pytest.mark.parametrize("finalizers", [{"a": "b"}, [1], "example.com/track"])
def test_finalizers_that_are_no_list_of_strings_are_named(table: Table, finalizers: Any) -> None:
    obj = pod("a", version=1)
    with pytest.raises(ValueError, match=r"metadata\.finalizers is a list of strings"):
        entry(table, {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}})


def test_the_pods_of_one_owner_share_its_reference(table: Table) -> None:
    one, other = (
        entry(table, pod("a", version=1, owner=owned_by("u"))),
        entry(table, pod("b", version=2, owner=owned_by("u"))),
    )
    assert one.controller is other.controller == OwnerRef("apps/v1", "ReplicaSet", "rs", "u")


def test_indexes_are_added_before_the_first_entry_and_under_one_name_once() -> None:
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


def test_an_index_that_is_not_there_is_refused_with_those_that_are() -> None:
    table = Table(PODS, indexes={"node": lambda _pod: ()})
    assert table.indexed("node", "n1") == []
    with pytest.raises(LookupError, match="pods have no index 'nod', but 'node', 'namespace', 'owner'"):
        table.indexed("nod", "n1")
