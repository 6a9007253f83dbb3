"""Nodes as the scheduler sees them, in the order in which it tries them."""

from __future__ import annotations

from collections.abc import Sequence

from kcm.actors.hollow.scheduler.node_fit import NodeView, interleaved, node_view
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry


class NodeSnapshot:
    """Views of all nodes as of the last refresh. len() is their number.

    order: the views, with interleaved zones.
    changes: number of refreshes that found a change.
    """

    def __init__(self, nodes: Lister) -> None:
        self.order: Sequence[NodeView] = []
        self.changes = 0
        self._nodes = nodes
        self._views: dict[str, tuple[Entry, NodeView]] = {}

    def __len__(self) -> int:
        return len(self.order)

    def view(self, name: str) -> NodeView | None:
        known = self._views.get(name)
        return None if known is None else known[1]

    def refresh(self) -> None:
        """Update the views from the table."""
        entries = self._nodes.entries()
        changed = len(entries) != len(self._views)
        for entry in entries:
            known = self._views.get(entry.key)
            if known is None or known[0] is not entry:
                view = node_view(self._nodes.object_of(entry))
                if known is None or known[1] != view:
                    changed = True
                else:
                    view = known[1]
                self._views[entry.key] = (entry, view)
        if changed:
            there = {entry.key for entry in entries}
            self._views = {name: known for name, known in self._views.items() if name in there}
            self.order = interleaved([view for _, view in self._views.values()])
            self.changes += 1
