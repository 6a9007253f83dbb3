"""Tracking of misplaced owner references, for the event OwnerRefInvalidNamespace.

An owner reference contains no namespace: the owner of a namespaced object is looked up in the object's namespace. A
reference is misplaced if its uid belongs to an object in another namespace. The garbage collector treats such an owner
as absent, which may cause the deletion of the dependent, and records this event on the dependent.

Source: kubernetes v1.36 pkg/controller/garbagecollector/graph_builder.go, addDependentToOwners and
reportInvalidNamespaceOwnerRef.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.apimachinery.garbage_collector.items import Item
from kcm.actors.controllers.apimachinery.garbage_collector.lru_cache import LruCache
from kcm.actors.controllers.apimachinery.garbage_collector.ownership import Reference
from kcm.protocols.objects import Object, metadata

REASON = "OwnerRefInvalidNamespace"
OBJECTS = 5000  # maximum number of objects whose reported references are kept
REFERENCES = 50  # maximum number of misplaced references that are considered for each object


class MisplacedOwners:
    """LRU cache of the misplaced owner references that an event was recorded for, by object.

    As upstream, the event is recorded when a reference is added to an object, and not again at every sync.
    """

    def __init__(self) -> None:
        self._reported: LruCache[Item, frozenset[str]] = LruCache(OBJECTS)

    def report(self, item: Item, misplaced: Iterable[Reference]) -> Reference | None:
        """Return a misplaced owner reference of an object that was not reported before; None if there is none.

        The caller records an event for it. All given references are marked as reported, so that there is one event for
        several references that were added together.

        item: the object
        misplaced: all of its misplaced owner references
        """
        considered = zip(range(REFERENCES), misplaced, strict=False)
        references = {str(reference.get("uid") or ""): reference for _, reference in considered}
        reported = self._reported.get(item) or frozenset()
        if references:
            self._reported.put(item, frozenset(references))
        elif reported:
            self._reported.pop(item)
        return next((reference for uid, reference in references.items() if uid not in reported), None)

    def forget(self, item: Item) -> None:
        self._reported.pop(item)


def event_text(obj: Object, reference: Reference) -> str:
    namespace = metadata(obj).get("namespace") or ""
    owner = (
        f"[{reference.get('apiVersion')}/{reference.get('kind')}, namespace: {namespace}, "
        f"name: {reference.get('name')}, uid: {reference.get('uid')}]"
    )
    return f'ownerRef {owner} does not exist in namespace "{namespace}"'
