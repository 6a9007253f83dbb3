"""Expansion of volumes on hollow nodes: the kubelet resizes the file system of a volume that has been expanded.

A kubelet does so while a pod on its node uses the volume. If several nodes have such pods, the node of the first pod by
name resizes it. Silent nodes do nothing. Key: "namespace/name" of a claim.

Source: kubernetes v1.36 pkg/volume/util/operationexecutor/node_expander.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kcm.actors.controllers.storage.persistentvolume_binder.spec import CLAIM_FACTS
from kcm.actors.controllers.storage.shared.expansion import (
    NODE_IN_PROGRESS,
    NODE_PENDING,
    allocated_storage,
    finished,
    node_in_progress,
)
from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS, PODS_BY_CLAIM
from kcm.actors.hollow import behaviour
from kcm.actors.hollow.intervals import MANY, look_again
from kcm.actors.hollow.nodes.fleet import HollowNode
from kcm.actors.reconciliation import (
    Change,
    Interest,
    Reconciliation,
    Step,
    Watch,
    itself,
    must_object,
    patch,
    record,
    step,
)
from kcm.actors.reconciliation.commands import in_name_of
from kcm.actors.reconciliation.derived import NODE, PODS_BY_NODE
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.messages.commands import Patch
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, key_of, resource_version_of
from kcm.protocols.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from kcm.protocols.volumes import claim_keys, requested_storage, resize_status_of, volume_name_of
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

RUNNING = "Running"
STEPS = (NODE_PENDING, NODE_IN_PROGRESS)


class _Users(NamedTuple):
    """Pods that use a claim on hollow nodes.

    entry: first pod on a node that is not silent, or None.
    due: Unix seconds at which a silent node with such a pod sends heartbeats again; None if it is unknown.
    """

    entry: Entry | None
    due: float | None


class NodeExpansion:
    """Reconciler of file systems to resize. Key: "namespace/name" of the claim."""

    def __init__(self, *, tables: Tables, clock: Clock, fleet: Mapping[str, HollowNode]) -> None:
        self._claims, self._pods, self._nodes = tables[PERSISTENT_VOLUME_CLAIMS], tables[PODS], tables[NODES]
        self._clock, self._fleet = clock, fleet

    def reconcile(self, key: Key) -> Reconciliation:
        claim = self._claims.get(key)
        if claim is None or resize_status_of(claim) not in STEPS:
            return None
        now = self._clock.now()
        users = self._users(key, now=now)
        if users.entry is None:
            return None if users.due is None else look_again(due=users.due, now=now)
        yield from self._resize(claim, users.entry)
        return None

    def _users(self, key: Key, *, now: float) -> _Users:
        due: float | None = None
        for entry in sorted(self._pods.indexed_entries(CLAIMS, key), key=lambda entry: entry.key):
            node = self._nodes.get(entry.facts.node) if entry.facts.node in self._fleet else None
            if node is None or entry.facts.phase != RUNNING:
                continue
            quiet = behaviour.silence(node, now=now)
            if not quiet.silent:
                return _Users(entry, None)
            if quiet.until is not None:
                due = quiet.until if due is None else min(due, quiet.until)
        return _Users(None, due)

    @step
    def _resize(self, claim: Object, entry: Entry) -> Step[None]:
        """Resize the file system. Source: expandOnPlugin."""
        node, pod = self._fleet[entry.facts.node], self._pods.object_of(entry)
        if resize_status_of(claim) == NODE_PENDING:
            claim = yield from self._write(claim, node_in_progress(claim), node)
        size = allocated_storage(claim) or requested_storage(claim)
        claim = yield from self._write(claim, finished(claim, size), node)
        text = f'MountVolume.NodeExpandVolume succeeded for volume "{volume_name_of(claim)}" {node.name}'
        for resource, about in ((PODS, pod), (PERSISTENT_VOLUME_CLAIMS, claim)):
            event = record(resource, about, "Normal", "FileSystemResizeSuccessful", text)
            yield replace(event, host=node.name, user=node.user)

    @step
    def _write(self, claim: Object, changed: Object, node: HollowNode) -> Step[Object]:
        return (yield from must_object(in_name_of(node.user, _status_patch(claim, changed))))


def _status_patch(claim: Object, changed: Object) -> Patch:
    """Return a merge patch of the fields of the status that an expansion changes, for the version that was read.

    Only patches can be sent with the credentials of a node.
    """
    status: Object = {name: changed["status"].get(name) for name in ("capacity", "conditions")}
    steps = changed["status"].get("allocatedResourceStatuses")  # None removes the field, not only its entries
    status["allocatedResourceStatuses"] = None if steps is None else {"storage": None, **steps}
    meta = {"resourceVersion": resource_version_of(claim)}
    body = {"metadata": meta, "status": status}
    return patch(PERSISTENT_VOLUME_CLAIMS, key_of(claim), body, subresource="status")


def claims_of_pod(change: Change, _tables: Tables) -> Iterable[Key]:
    return claim_keys(change.new)


def _claims_on(nodes: Collection[str]) -> Callable[[Change, Tables], Iterable[Key]]:
    """Return a function for the claims of the pods of a node that becomes silent, or sends heartbeats again."""

    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        if change.key not in nodes:
            return ()
        old = change.old
        if old is not None and behaviour.asked_silence(change.new) == behaviour.asked_silence(old):
            return ()
        pods = tables[PODS]
        found = [key for pod in pods.indexed(NODE, change.key) for key in claim_keys(pod)]
        return dict.fromkeys(found)

    return keys


def expansion_spec(fleet: Mapping[str, HollowNode]) -> ControllerSpec:
    return ControllerSpec(
        name="hollow-expansion-controller",
        never_blocks=True,
        client="hollow-kubelet",
        component="kubelet",
        queues=(
            Queue(
                watches=(
                    Watch(
                        PERSISTENT_VOLUME_CLAIMS,
                        to=itself,
                        interest=Interest(
                            types=(EventType.ADDED, EventType.MODIFIED),
                            changed=("resize",),
                            having=(("resize", STEPS),),
                        ),
                    ),
                    Watch(
                        PODS,
                        to=claims_of_pod,
                        interest=Interest(
                            types=(EventType.ADDED, EventType.MODIFIED),
                            changed=("phase",),
                            having=(("phase", (RUNNING,)),),
                        ),
                    ),
                    Watch(NODES, to=_claims_on(fleet), interest=Interest(types=(EventType.ADDED, EventType.MODIFIED))),
                ),
                concurrency=MANY,
                terminal=(),
            ),
        ),
        indexes=(PODS_BY_CLAIM, PODS_BY_NODE),
        facts=(CLAIM_FACTS,),
        build=lambda context: NodeExpansion(tables=context.tables, clock=context.clock, fleet=fleet),
    )
