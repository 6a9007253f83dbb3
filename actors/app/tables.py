"""Which tables there are, and what each controller sees of them.

A table is kept for each selection that no other contains: of what the enabled controllers ask for, and then of what the
others ask for. So a controller that is disabled widens nobody's watch, as it may be that the server would refuse it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kcm.actors.options import Options
from kcm.actors.reconciliation.derived import MakeTable, check_interests, derived_by, indexes_of
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.resources import Resource
from kcm.runtime.tables.selection import WHOLE, Selection
from kcm.runtime.tables.table import IndexValues, Table
from kcm.runtime.tables.view import AnyTable, Part, View, mark_of, marks, of_metadata, tables_of


class TablePlan(NamedTuple):
    """tables: by Table.id, in the order in which controllers name them. seen: by controller and Resource.id."""

    tables: dict[str, Table]
    seen: dict[str, Mapping[str, AnyTable]]


def plan_tables(
    specs: Sequence[ControllerSpec], *, options: Options, enabled: Collection[str], make_table: MakeTable
) -> TablePlan:
    """enabled: the names of the controllers that are to run.

    Raises ValueError if two controllers give one name to two indexes of a resource, or derive different facts of it;
    and TypeError or ValueError on what one of them cannot watch.
    """
    check_interests(specs)
    asked = {spec.name: asked_by(spec, options) for spec in specs}
    shared: dict[Resource, list[Selection]] = {}  # for the enabled ones
    for spec in specs:
        if spec.name in enabled:
            _keep(shared, asked[spec.name])
    kept = {resource: list(selections) for resource, selections in shared.items()}
    for spec in specs:
        _keep(kept, asked[spec.name], fixed=shared)
    making = _Making(specs, make_table)
    seen: dict[str, Mapping[str, AnyTable]] = {
        spec.name: {
            resource.id: making.seen(resource, selection, (shared if spec.name in enabled else kept)[resource])
            for resource, selection in asked[spec.name].items()
        }
        for spec in specs
    }
    for spec in specs:
        making.add_indexes(spec, seen[spec.name], options)
    return TablePlan(making.tables, seen)


def asked_by(spec: ControllerSpec, options: Options) -> dict[Resource, Selection]:
    """What a controller is to see of each resource: what all its watches and reads of it select.

    Raises TypeError or ValueError, with the controller's name, for an invalid selection, and if none of several
    contains the others.
    """
    asked: dict[Resource, list[Selection]] = {}
    for one in spec.selecting:
        try:
            asked.setdefault(one.resource, []).append(one.resolved(options).selection)
        except (TypeError, ValueError) as err:
            raise type(err)(f"{spec.name}: {err}") from err
    return {resource: _together(spec, resource, selections) for resource, selections in asked.items()}


def _together(spec: ControllerSpec, resource: Resource, selections: Sequence[Selection]) -> Selection:
    namespaces: dict[Selection, set[str] | None] = {}  # of those that are equal but for these
    for one in selections:
        known = namespaces.setdefault(replace(one, namespaces=None), set())
        if one.namespaces is None or known is None:
            namespaces[replace(one, namespaces=None)] = None
        else:
            known.update(one.namespaces)
    merged = [
        one if chosen is None else replace(one, namespaces=tuple(sorted(chosen))) for one, chosen in namespaces.items()
    ]
    for one in merged:
        if all(one.contains(other) for other in merged):
            return one
    said = "; ".join(str(one) or "all of it" for one in merged)
    raise ValueError(
        f"{spec.name} selects {resource} in ways of which none contains the others ({said}): "
        f"a Read of what they have in common makes one that does"
    )


def _keep(
    kept: dict[Resource, list[Selection]],
    asked: Mapping[Resource, Selection],
    fixed: Mapping[Resource, Sequence[Selection]] | None = None,
) -> None:
    """Add to `kept` the selections that no other selection contains. fixed: selections that are never removed."""
    for resource, selection in asked.items():
        there = kept.setdefault(resource, [])
        if any(one.contains(selection) for one in there):
            continue
        for each in selection.each_namespace():
            if not any(one.contains(each) for one in there):
                stays = () if fixed is None else fixed.get(resource, ())
                there[:] = [one for one in there if one in stays or not each.contains(one)]
                there.append(each)


class _Making:
    def __init__(self, specs: Sequence[ControllerSpec], make_table: MakeTable) -> None:
        self.tables: dict[str, Table] = {}
        self._make, self._derived = make_table, derived_by(specs)
        self._indexes = indexes_of(specs)

    def seen(self, resource: Resource, selection: Selection, kept: Iterable[Selection]) -> AnyTable:
        """kept: the selections of this resource that tables may be made of."""
        if selection == WHOLE:
            return self._table(resource, WHOLE)
        kept = tuple(kept)
        for one in kept:
            if one.contains(selection):
                return View(resource, selection, [self._part(self._table(resource, one), "", selection)])
        parts = []
        for each in selection.each_namespace():
            one = next(one for one in kept if one.contains(each))
            parts.append(self._part(self._table(resource, one), "".join(each.namespaces or ()), selection))
        return View(resource, selection, parts)

    def add_indexes(self, spec: ControllerSpec, seen: Mapping[str, AnyTable], options: Options) -> None:
        """Add the indexes of the spec, plus one for each watch that selects less than the lister of the controller."""
        for index in spec.indexes:
            view = seen.get(index.resource.id)
            if isinstance(view, View):
                values_of = of_metadata(index.values_of) if view.metadata_only else index.values_of
                for part in view.parts:
                    self._add_index(part.table, view.index_name(index.name), values_of)
        for watch in spec.watches:
            selection, view = watch.resolved(options).selection, seen[watch.resource.id]
            if not selection.covers(view.selection):
                for table in tables_of(view):
                    self._add_index(table, mark_of(selection), marks(selection, table.selection))

    def _part(self, table: Table, namespace: str, selection: Selection) -> Part:
        if selection.covers(table.selection):
            return Part(table, namespace, "")
        mark = mark_of(selection)
        self._add_index(table, mark, marks(selection, table.selection))
        return Part(table, namespace, mark)

    def _add_index(self, table: Table, name: str, values_of: IndexValues) -> None:
        if name not in table.index_names:
            table.add_indexes({name: values_of})

    def _table(self, resource: Resource, selection: Selection) -> Table:
        table = self.tables.get(selection.id_of(resource))
        if table is None:
            table = self._make(resource, selection=selection, derive=self._derived.get(resource.id))
            self.tables[table.id] = table
            if selection == WHOLE:
                table.add_indexes(self._indexes.get(resource.id, {}))
        return table
