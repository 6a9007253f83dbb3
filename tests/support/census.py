"""A controller for tests only: counts all objects by owner, over whatever resources discovery finds.

It writes its counts into ConfigMaps `census-<owner's uid>`, as data by resource, so that a test sees what it counted.
Objects with nobody to own them count under the uid "none".
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.reconciliation import Change, Reconciliation, create, must, patch
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import AlreadyExists
from kcm.protocols.objects import metadata
from kcm.protocols.resources import Resource
from kcm.runtime.tables.tables import Tables

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
NAMESPACE = "default"
NOBODY = "none"
UNCOUNTED = frozenset({"configmaps", "events", "leases", "nodes", "namespaces", "serviceaccounts"})


def owners_of(_resource: Resource, change: Change, _tables: Tables) -> Iterable[str]:
    """The uids of an object's owners, before and after."""
    for obj in (change.old, change.new):
        if obj is not None:
            references = metadata(obj).get("ownerReferences") or ()
            yield from [reference["uid"] for reference in references] or [NOBODY]


class Census:
    """Key: the uid of an owner."""

    def __init__(self, *, tables: Tables) -> None:
        self._tables = tables
        self.counts: dict[str, dict[str, int]] = {}  # by owner, then resource

    def reconcile(self, owner: str) -> Reconciliation:
        counts: dict[str, int] = {}
        for resource in self._tables.discovered():
            lister = self._tables[resource]
            if owner == NOBODY:
                count = sum(
                    1 for entry in lister.entries() if not (metadata(lister.object_of(entry)).get("ownerReferences"))
                )
            else:
                count = len(lister.dependent_entries(owner))
            if count:
                counts[resource.name] = count
        self.counts[owner] = counts
        name = f"census-{owner}"
        data = {resource: str(count) for resource, count in counts.items()}
        known = self._tables[CONFIGMAPS].get(f"{NAMESPACE}/{name}")
        if known is None:
            body = {"metadata": {"name": name}, "data": data}
            yield from must(create(CONFIGMAPS, body, namespace=NAMESPACE), but=(AlreadyExists,))
        elif (known.get("data") or {}) != data:
            gone = dict.fromkeys(set(known.get("data") or {}) - set(data))
            yield from must(patch(CONFIGMAPS, f"{NAMESPACE}/{name}", {"data": {**data, **gone}}))
        return None


def counted(served: ServedResource) -> bool:
    return served.plural not in UNCOUNTED


def census(built: list[Census], *, name: str = "census-controller", metadata_only: bool = True) -> ControllerSpec:
    """built: where its incarnations are found."""

    def build(context: ControllerContext) -> Census:
        built.append(Census(tables=context.tables))
        return built[-1]

    return ControllerSpec(
        name=name,
        build=build,
        queues=(Queue("census", watches=()),),
        reads=(CONFIGMAPS,),
        discovers=Discovered(select=counted, to=owners_of, metadata_only=metadata_only),
    )


CENSUS = census([])  # for a process of its own
