"""Small attach-detach controller for tests of the hollow nodes' volumes. Key: name of a node.

It attaches the CSI volumes of pods that are bound to the node, and reports them in volumesAttached. It detaches volumes
that no pod uses once the kubelet does not report them in use, or at once from a node with the out-of-service taint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kcm.actors.reconciliation import Change, Reconciliation, Watch, create, delete, must, patch
from kcm.actors.reconciliation.derived import NODE, PODS_BY_NODE
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.csi import (
    CsiSource,
    attached_names,
    attached_volume,
    attachment_name,
    csi_source,
    in_use_names,
    is_attached,
    requires_attach,
)
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, NotFound
from kcm.protocols.objects import Key, Object, is_deleting, name_of
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import (
    CSI_DRIVERS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import claim_keys, volume_name_of
from kcm.runtime.tables.tables import Tables

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
NAME = "stand-in-attach-detach-controller"


class StandIn:
    def __init__(self, *, tables: Tables) -> None:
        self._pods, self._nodes, self._claims = tables[PODS], tables[NODES], tables[PERSISTENT_VOLUME_CLAIMS]
        self._volumes, self._attachments = tables[PERSISTENT_VOLUMES], tables[VOLUME_ATTACHMENTS]
        self._drivers = tables[CSI_DRIVERS]

    def reconcile(self, name: Key) -> Reconciliation:
        node = self._nodes.get(name)
        if node is None:
            return None
        present = {name_of(found): found for found in self._attachments.objects() if found["spec"]["nodeName"] == name}
        wanted = {attachment_name(source, name): (volume, source) for volume, source in self._wanted(name)}
        for key, (volume, source) in wanted.items():
            if key not in present and not self._is_elsewhere(volume, name):
                spec = {"attacher": source.driver, "nodeName": name}
                spec["source"] = {"persistentVolumeName": name_of(volume)}
                body = {"metadata": {"name": key}, "spec": spec}
                yield from must(create(VOLUME_ATTACHMENTS, body), but=(AlreadyExists,))
        out = any(taint.get("key") == OUT_OF_SERVICE for taint in (node.get("spec") or {}).get("taints") or ())
        attached = []
        for key, attachment in present.items():
            found = self._volumes.get(attached_volume(attachment))
            source = None if found is None else csi_source(found)
            unique = "" if source is None else source.unique_name
            if key not in wanted and not is_deleting(attachment) and (out or unique not in in_use_names(node)):
                yield from must(delete(VOLUME_ATTACHMENTS, attachment, depends_on=()), but=(NotFound, Conflict))
            elif is_attached(attachment) and not is_deleting(attachment):
                attached.append(unique)
        if frozenset(attached) != attached_names(node):
            listed = [{"name": unique, "devicePath": ""} for unique in sorted(attached)]
            yield from must(patch(NODES, name, {"status": {"volumesAttached": listed}}, subresource="status"))
        return None

    def _wanted(self, node: str) -> Iterator[tuple[Object, CsiSource]]:
        for entry in self._pods.indexed_entries(NODE, node):
            if is_terminal(entry.facts):
                continue
            for key in claim_keys(self._pods.object_of(entry)):
                claim = self._claims.get(key)
                volume = self._volumes.get(volume_name_of(claim)) if claim is not None else None
                source = None if volume is None else csi_source(volume)
                if volume is not None and source is not None and requires_attach(self._drivers.get(source.driver)):
                    yield volume, source

    def _is_elsewhere(self, volume: Object, node: str) -> bool:
        return any(
            attached_volume(other) == name_of(volume) and other["spec"]["nodeName"] != node
            for other in self._attachments.objects()
        )


def _all_nodes(_change: Change, tables: Tables) -> Iterable[Any]:
    return [entry.key for entry in tables[NODES].entries()]


WATCHED = (PODS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS, CSI_DRIVERS)
SPEC = ControllerSpec(
    name=NAME,
    queues=(Queue("attach", watches=tuple(Watch(resource, to=_all_nodes) for resource in WATCHED)),),
    indexes=(PODS_BY_NODE,),
    build=lambda context: StandIn(tables=context.tables),
)
