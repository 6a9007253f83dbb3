"""Controller for tests that counts objects by owner, over all resources that discovery finds.

It writes the counts into ConfigMaps `census-<owner's uid>`, as data by resource. Objects without an owner are counted
under the uid "none".
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
UNOWNED = "none"
UNCOUNTED = frozenset({"configmaps", "events", "leases", "nodes", "namespaces", "serviceaccounts"})


def owners_of(_resource: Resource, change: Change, _tables: Tables) -> Iterable[str]:
    """Return the uids of an object's owners, before and after the change."""
    for obj in (change.old, change.new):
        if obj is not None:
            references = metadata(obj).get("ownerReferences") or ()
            yield from [reference["uid"] for reference in references] or [UNOWNED]


class Census:
    """Reconciler whose keys are the uids of owners."""

    def __init__(self, *, tables: Tables) -> None:
        self._tables = tables
        self.counts: dict[str, dict[str, int]] = {}  # by owner, then resource

    def reconcile(self, owner: str) -> Reconciliation:
        counts: dict[str, int] = {}
        for resource in self._tables.discovered():
            lister = self._tables[resource]
            if owner == UNOWNED:
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
    """Return the spec of the controller. built: list to which each incarnation is appended."""

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


CENSUS = census([])  # for a separate process
