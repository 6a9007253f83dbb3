"""A status that a controller wrote itself gives it no reason to look again; whatever else changes does."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controller.own_writes import remember
from actors.reconciliation import Change, itself_but_for_own_status
from protocols.messages.commands import Update
from protocols.messages.outcomes import Done, Unknown
from protocols.objects import encode_object
from protocols.resources import REPLICASETS
from runtime.overlay import Tables
from runtime.table import Table

KEY = "default/web"


def web(version: str) -> dict[str, Any]:
    meta = {"name": "web", "namespace": "default", "uid": "u"}
    return {"metadata": {**meta, "resourceVersion": version} if version else meta}


@pytest.fixture
def table() -> Table:
    return Table(REPLICASETS)


@pytest.fixture
def tables(table: Table) -> Tables:
    return Tables({REPLICASETS.id: table})


def write(tables: Tables, *, on: str, answered: str, subresource: str = "status") -> None:
    command = Update(REPLICASETS.id, KEY, encode_object(web(on)), subresource)
    remember(tables, command, Done(encode_object(web(answered))))


def concerned(tables: Tables, version: str, *, before: str = "", type: str = "MODIFIED") -> list[str]:
    """Whom an event concerns that shows `version` where `before` was."""
    previous = encode_object(web(before)) if before else b""
    raw = encode_object(web(version))
    change = Change(type=type, key=KEY, raw=raw, controller=None, previous=previous, version=version)
    return list(itself_but_for_own_status(REPLICASETS)(change, tables))


def test_own_statuses_one_after_the_other_concern_nobody(tables: Tables) -> None:
    write(tables, on="5", answered="7")
    write(tables, on="7", answered="8")
    assert concerned(tables, "7", before="5") == []
    assert concerned(tables, "8", before="7") == []


@pytest.mark.parametrize("subresource, on", [("", "5"), ("status", "")], ids=["not only a status", "unconditional"])
def test_a_write_that_may_have_changed_more_concerns_the_object(tables: Tables, subresource: str, on: str) -> None:
    write(tables, on=on, answered="7", subresource=subresource)
    assert concerned(tables, "7", before="5") == [KEY]


def test_what_a_list_shows_at_once_with_an_own_status_concerns_the_object(tables: Tables) -> None:
    """Somebody changed the object from 4 to 5, and no event told of that."""
    write(tables, on="5", answered="7")
    assert concerned(tables, "7", before="4") == [KEY]
    assert concerned(tables, "7", type="ADDED") == [KEY]


def test_changes_and_statuses_of_others_concern_the_object(tables: Tables) -> None:
    write(tables, on="5", answered="7")
    assert concerned(tables, "9", before="7") == [KEY]
    assert concerned(tables, "7", before="5", type="DELETED") == [KEY]


def test_a_status_whose_answer_was_lost_concerns_the_object(tables: Tables) -> None:
    remember(tables, Update(REPLICASETS.id, KEY, encode_object(web("5")), "status"), Unknown("broken"))
    assert concerned(tables, "7", before="5") == [KEY]


def test_after_a_restored_backup_versions_mean_nothing_any_more(table: Table, tables: Tables) -> None:
    writer = table.claim()
    writer.advance(20)
    write(tables, on="5", answered="7")
    writer.replace([], 6)
    assert concerned(tables, "7", before="5") == [KEY]


def test_what_the_table_has_passed_is_forgotten_at_the_next_tidying(table: Table, tables: Tables) -> None:
    write(tables, on="5", answered="7")
    overlay = tables.overlay(REPLICASETS.id)
    assert overlay is not None
    overlay.prune()
    assert overlay.status_written_on("7") == "5"
    table.claim().advance(7)
    overlay.prune()
    assert overlay.status_written_on("7") is None
