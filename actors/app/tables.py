"""Plan of the tables of a system: shared tables, and the view that each controller has of them.

There is one table for each selection that no other selection contains. The selections of enabled controllers are merged
first, then those of disabled ones: a disabled controller must not widen a watch of an enabled one, because RBAC may
forbid the wider watch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kcm.actors.options import Options
from kcm.actors.reconciliation.derived import MakeTable, check_interests, derived_by, indexes_of
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.resources import Resource
from kcm.runtime.tables.selection import WHOLE, Selection
from kcm.runtime.tables.table import IndexValues, Table
from kcm.runtime.tables.view import AnyTable, Part, View, mark_of, marks, of_metadata, tables_of


class TablePlan(NamedTuple):
    """Tables of a system, and what each controller sees of them."""

    tables: dict[str, Table]  # by Table.id, in the order in which controllers name them
    seen: dict[str, Mapping[str, AnyTable]]  # by the controller's name and Resource.id


def plan_tables(
    specs: Sequence[ControllerSpec], *, options: Options, enabled: Collection[str], make_table: MakeTable
) -> TablePlan:
    """Return the tables that these controllers need.

    enabled: names of the controllers that will run.

    Raises ValueError if two controllers give one name to two indexes of a resource, or derive different facts of it;
    TypeError or ValueError for an invalid selection.
    """
    check_interests(specs)
    asked = {spec.name: asked_by(spec, options) for spec in specs}
    shared: dict[Resource, list[Selection]] = {}  # of enabled controllers
    for spec in specs:
        if spec.name in enabled:
            _keep(shared, asked[spec.name])
    kept = {resource: list(selections) for resource, selections in shared.items()}
    for spec in specs:
        _keep(kept, asked[spec.name], fixed=shared)
    builder = _TableBuilder(specs, make_table)
    seen: dict[str, Mapping[str, AnyTable]] = {
        spec.name: {
            resource.id: builder.seen(resource, selection, (shared if spec.name in enabled else kept)[resource])
            for resource, selection in asked[spec.name].items()
        }
        for spec in specs
    }
    for spec in specs:
        builder.add_indexes(spec, seen[spec.name], options)
    return TablePlan(builder.tables, seen)


def asked_by(spec: ControllerSpec, options: Options) -> dict[Resource, Selection]:
    """Return what a controller sees of each resource: the union of its watches and reads.

    Raises TypeError or ValueError, with the controller's name, for an invalid selection, or if no selection of a
    resource contains the controller's other selections of it.
    """
    asked: dict[Resource, list[Selection]] = {}
    for source in spec.selecting:
        try:
            asked.setdefault(source.resource, []).append(source.resolved(options).selection)
        except (TypeError, ValueError) as err:
            raise type(err)(f"{spec.name}: {err}") from err
    return {resource: _together(spec, resource, selections) for resource, selections in asked.items()}


def _together(spec: ControllerSpec, resource: Resource, selections: Sequence[Selection]) -> Selection:
    namespaces: dict[Selection, set[str] | None] = {}  # by selection without its namespaces; None is all
    for selection in selections:
        known = namespaces.setdefault(replace(selection, namespaces=None), set())
        if selection.namespaces is None or known is None:
            namespaces[replace(selection, namespaces=None)] = None
        else:
            known.update(selection.namespaces)
    merged = [
        selection if chosen is None else replace(selection, namespaces=tuple(sorted(chosen)))
        for selection, chosen in namespaces.items()
    ]
    for selection in merged:
        if all(selection.contains(other) for other in merged):
            return selection
    selected = "; ".join(str(selection) or "all of it" for selection in merged)
    raise ValueError(
        f"{spec.name} selects {resource} in ways that do not contain each other ({selected}): "
        f"a Read with a selection that contains all of them is missing"
    )


def _keep(
    kept: dict[Resource, list[Selection]],
    asked: Mapping[Resource, Selection],
    fixed: Mapping[Resource, Sequence[Selection]] | None = None,
) -> None:
    """Add to `kept` the selections that no other selection contains. fixed: selections that are never removed."""
    for resource, selection in asked.items():
        there = kept.setdefault(resource, [])
        if any(kept_selection.contains(selection) for kept_selection in there):
            continue
        for part in selection.each_namespace():
            if not any(kept_selection.contains(part) for kept_selection in there):
                stays = () if fixed is None else fixed.get(resource, ())
                there[:] = [
                    kept_selection
                    for kept_selection in there
                    if kept_selection in stays or not part.contains(kept_selection)
                ]
                there.append(part)


class _TableBuilder:
    def __init__(self, specs: Sequence[ControllerSpec], make_table: MakeTable) -> None:
        self.tables: dict[str, Table] = {}
        self._make, self._derived = make_table, derived_by(specs)
        self._indexes = indexes_of(specs)

    def seen(self, resource: Resource, selection: Selection, kept: Iterable[Selection]) -> AnyTable:
        """Return what a controller sees of a resource, with the tables that it needs.

        kept: selections of this resource that have a table.
        """
        if selection == WHOLE:
            return self._table(resource, WHOLE)
        kept = tuple(kept)
        for wider in kept:
            if wider.contains(selection):
                return View(resource, selection, [self._part(self._table(resource, wider), "", selection)])
        parts = []
        for one_namespace in selection.each_namespace():
            wider = next(wider for wider in kept if wider.contains(one_namespace))
            parts.append(self._part(self._table(resource, wider), "".join(one_namespace.namespaces or ()), selection))
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
