"""Controllers that each mark the ConfigMaps of one of several clusters, for tests of systems on several clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.reconciliation import Reconciliation, Watch, itself
from kcm.actors.reconciliation.commands import patch, record
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.reconciliation.steps import must
from kcm.protocols.objects import Key
from kcm.protocols.resources import Resource
from kcm.runtime.tables.tables import Tables

MARKED = {"seen": "yes"}


def is_marked(configmap: Mapping[str, Any] | None) -> bool:
    return configmap is not None and configmap.get("data") == MARKED


class Marker:
    """Marks each ConfigMap of a cluster as seen, and records that."""

    def __init__(self, tables: Tables, resource: Resource) -> None:
        self._configmaps, self._resource = tables[resource], resource

    def reconcile(self, key: Key) -> Reconciliation:
        configmap = self._configmaps.get(key)
        if configmap is not None and not is_marked(configmap):
            yield from must(patch(self._resource, key, {"data": MARKED}))
            yield record(self._resource, configmap, "Normal", "Seen", "Seen")


def marker(resource: Resource, namespaces: tuple[str, ...] | None = ("default",)) -> ControllerSpec:
    """Return the controller of a cluster, marker-CLUSTER. namespaces: that it watches; None for all."""
    return ControllerSpec(
        name=f"marker-{resource.cluster}",
        queues=(Queue(watches=(Watch(resource, to=itself, namespaces=namespaces),)),),
        build=lambda context: Marker(context.tables, resource),
    )
