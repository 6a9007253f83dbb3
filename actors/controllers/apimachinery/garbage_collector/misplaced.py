"""The event OwnerRefInvalidNamespace, for owner references whose uid belongs to an object in another namespace.

Source: kubernetes v1.36 pkg/controller/garbagecollector/graph_builder.go, addDependentToOwners and
reportInvalidNamespaceOwnerRef.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import Reference
from kcm.actors.controllers.apimachinery.garbage_collector.recent import Recent
from kcm.protocols.objects import Object, metadata

REASON = "OwnerRefInvalidNamespace"
OBJECTS = 5000  # objects whose reported references are kept
REFERENCES = 50  # references of one object that are considered


class MisplacedOwners:
    """Keeps the reported references: upstream records the event when a reference is added, not at every sync."""

    def __init__(self) -> None:
        self._reported: Recent[Item, frozenset[str]] = Recent(OBJECTS)

    def news(self, item: Item, misplaced: Iterable[Reference]) -> Reference | None:
        """Return the first reference that was not reported before; None if all were.

        misplaced: all misplaced references of the object. One event is recorded for all that were added together.
        """
        references = {str(each.get("uid") or ""): each for _, each in zip(range(REFERENCES), misplaced, strict=False)}
        before = self._reported.get(item) or frozenset()
        if references:
            self._reported.put(item, frozenset(references))
        elif before:
            self._reported.pop(item)
        return next((each for uid, each in references.items() if uid not in before), None)

    def forget(self, item: Item) -> None:
        self._reported.pop(item)


def event_text(obj: Object, reference: Reference) -> str:
    namespace = metadata(obj).get("namespace") or ""
    owner = (
        f"[{reference.get('apiVersion')}/{reference.get('kind')}, namespace: {namespace}, "
        f"name: {reference.get('name')}, uid: {reference.get('uid')}]"
    )
    return f'ownerRef {owner} does not exist in namespace "{namespace}"'
