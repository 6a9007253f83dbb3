"""A deletion waits while a table that it depends on is stale."""

from __future__ import annotations

import pytest

from kcm.actors.engine.controller.readiness import StaleTableError, check_freshness
from kcm.actors.reconciliation import delete
from kcm.protocols.messages.commands import Delete, DeleteCollection
from kcm.protocols.resources import NODES, PODS, REPLICASETS
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import TableMissingError, Tables

NOW, STALE_AFTER = 1000.0, 300.0


def table(resource, *, heard: float | None, synced: bool = True) -> Table:
    made = Table(resource)
    writer = made.claim()
    if synced:
        writer.replace([], 1)
    if heard is not None:
        writer.touch(heard)
    return made


def tables(*, discovered: Table | None = None, **heard: float | None) -> Tables:
    static = {resource.id: table(resource, heard=heard.get(resource.plural, NOW)) for resource in (PODS, NODES)}
    made = Tables(static, discovers=True)
    if discovered is not None:
        made.add(discovered)
        made.arrived(discovered.resource.id)
    return made


def check(command: Delete | DeleteCollection, on: Tables) -> None:
    check_freshness(on, [command], now=NOW, stale_after=STALE_AFTER)


def test_deletions_depend_on_the_tables_of_the_spec_by_default() -> None:
    check(delete(PODS, "d/a"), tables(discovered=table(REPLICASETS, heard=0.0)))
    with pytest.raises(StaleTableError, match="nodes is 1000 s old"):
        check(delete(PODS, "d/a"), tables(nodes=0.0))
    with pytest.raises(StaleTableError, match="nodes has not heard"):
        check(DeleteCollection(PODS.id, "d"), tables(nodes=None))


def test_only_named_dependencies_are_checked() -> None:
    command = delete(PODS, "d/a", depends_on=(PODS, REPLICASETS))
    check(command, tables(nodes=0.0, discovered=table(REPLICASETS, heard=NOW)))
    check(delete(PODS, "d/a", depends_on=()), tables(nodes=0.0, pods=0.0))
    with pytest.raises(StaleTableError, match=r"replicasets\.apps is 1000 s old"):
        check(command, tables(discovered=table(REPLICASETS, heard=0.0)))
    with pytest.raises(StaleTableError, match=r"replicasets\.apps has not heard"):
        check(command, tables(discovered=table(REPLICASETS, heard=NOW, synced=False)))
    with pytest.raises(StaleTableError, match="no table of apps/v1/replicasets"):
        check(command, tables())


def test_missing_or_unsynced_table_cannot_be_read() -> None:
    made = tables()
    with pytest.raises(TableMissingError, match="no table of apps/v1/replicasets: it is not served, or not selected"):
        made[REPLICASETS]
    made.add(table(REPLICASETS, heard=NOW))
    with pytest.raises(TableMissingError, match="the table of apps/v1/replicasets is not synced"):
        made[REPLICASETS]
    assert made.discovered() == ()
    made.arrived(REPLICASETS.id)
    assert made[REPLICASETS].objects() == []
    assert made.discovered() == (REPLICASETS,)
    made.remove(REPLICASETS.id)
    with pytest.raises(TableMissingError):
        made[REPLICASETS]
    with pytest.raises(ValueError, match="static"):
        made.remove(PODS.id)
    with pytest.raises(KeyError, match="needs a Watch in a queue"):
        Tables({})[REPLICASETS]
