"""Hollow device driver: publishes the devices of hollow nodes as ResourceSlices. Key: node name.

device_pools.py describes the annotation of the node. A slice is written when the annotation changes, so that users may
edit slices, for example to taint a device. Slices of one node are written by its kubelet's user, and others by the user
of all hollow nodes. A silent node writes nothing.

Source: kubernetes v1.36 staging/src/k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from kcm.actors.hollow.behaviour import asked_silence, shortened, silence
from kcm.actors.hollow.device_pools import (
    CONTENT,
    DEVICES,
    PUBLISHER,
    DevicePool,
    content_of,
    device_pools,
    generation_after,
    slices_of,
)
from kcm.actors.hollow.intervals import MANY, look_again
from kcm.actors.hollow.nodes.fleet import HollowNode
from kcm.actors.reconciliation import (
    Because,
    Change,
    Index,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    create,
    delete,
    must,
    patch,
    record,
)
from kcm.actors.reconciliation.commands import in_name_of
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.messages.commands import Create, Delete, Patch
from kcm.protocols.messages.outcomes import Conflict, Invalid, NotFound
from kcm.protocols.objects import Key, Object, annotations_of, labels_of, name_of, resource_version_of
from kcm.protocols.resources import NODES, RESOURCE_SLICES
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

REFUSED_INTERVAL = 60.0  # seconds until slices are written again that the API server refused as invalid
_LONGEST_REFUSAL = 700  # characters of the API server's error in an event; the API allows 1024 bytes in all
W = TypeVar("W", Create, Patch, Delete)
_SLICES_BY_NODE = Index(RESOURCE_SLICES, "publisher", lambda published: (labels_of(published).get(PUBLISHER) or "",))


class HollowDevices:
    """Reconciler of the slices of hollow nodes. Key: name of a node."""

    def __init__(self, *, tables: Tables, clock: Clock, fleet: Mapping[str, HollowNode]) -> None:
        self._nodes, self._slices = tables[NODES], tables[RESOURCE_SLICES]
        self._clock, self._fleet = clock, fleet
        self._reported: dict[str, str] = {}  # by node, a hash of the invalid annotation that was reported

    def reconcile(self, key: Key) -> Reconciliation:
        node = self._nodes.get(key)
        present = {name_of(published): published for published in self._slices.indexed(_SLICES_BY_NODE.name, key)}
        pools: list[DevicePool] = []
        if node is not None:
            quiet = silence(node, now=self._clock.now())
            if quiet.silent:
                yield Because("publishes nothing: the node is silent, as an annotation requests")
                return None if quiet.until is None else look_again(due=quiet.until, now=self._clock.now())
            try:
                pools = device_pools(node)
            except ValueError as err:
                yield Because(f"keeps what was published: annotation {DEVICES} is invalid: {err}")
                yield from self._report(node, str(err))
                return None  # keep what was published before
        wanted: set[str] = set()
        for pool in pools:
            assert node is not None
            made = slices_of(pool, node, generation=1)
            wanted.update(map(name_of, made))
            refused = yield from self._publish(pool, node, made, present)
            if refused is not None:
                text = f"ResourceSlices of {shortened(pool.driver)}: {refused.message[:_LONGEST_REFUSAL]}"
                yield Because(f"the API server refuses {text}; again in {REFUSED_INTERVAL:.0f} s")
                yield from self._report(node, text)
                return RequeueAfter(REFUSED_INTERVAL)  # an admission policy, for example, may change
        self._reported.pop(key, None)
        for name, surplus in present.items():
            if name not in wanted:
                yield Because(f"no device of ResourceSlice {name} is requested: deletes it")
                deletion = delete(RESOURCE_SLICES, surplus, depends_on=((NODES, key), (RESOURCE_SLICES, name)))
                yield from must(self._by_publisher(key, surplus, deletion), but=(NotFound, Conflict))
        return None

    def _report(self, node: Object, why: str) -> Step[None]:
        """Record an event about the node's annotation, once for each content of the annotation."""
        digest = hashlib.blake2b(annotations_of(node)[DEVICES].encode("utf-8", "replace"), digest_size=8).hexdigest()
        if self._reported.get(name_of(node)) != digest:
            self._reported[name_of(node)] = digest
            yield record(NODES, node, "Warning", "InvalidDevices", f"annotation {DEVICES}: {why}")

    def _publish(
        self, pool: DevicePool, node: Object, made: list[Object], present: Mapping[str, Object]
    ) -> Step[Invalid | None]:
        """Write the slices of a pool, all with a new generation, unless they are published already.

        Returns the outcome of the first slice that the API server refuses as invalid.
        """
        of_pool = [
            published
            for published in present.values()
            if (published["spec"]["driver"], published["spec"]["pool"]["name"]) == (pool.driver, pool.name)
        ]
        content = content_of(pool)
        if all(name_of(wanted) in present for wanted in made) and all(
            annotations_of(published).get(CONTENT) == content for published in of_pool
        ):
            return None
        yield Because(f"publishes {len(pool.devices)} devices of {shortened(pool.driver)} in pool {pool.name}")
        for wanted in slices_of(pool, node, generation=generation_after(of_pool)):
            known = present.get(name_of(wanted))
            command: Create | Patch
            if known is None:
                command = self._by_publisher(name_of(node), wanted, create(RESOURCE_SLICES, wanted))
            else:
                meta = {**wanted["metadata"], "resourceVersion": resource_version_of(known)}
                spec = {"devices": None, "sharedCounters": None, **wanted["spec"]}
                change = patch(RESOURCE_SLICES, name_of(wanted), {"metadata": meta, "spec": spec})
                command = self._by_publisher(name_of(node), wanted, change)
            outcome = yield from must(command, but=(Invalid,))
            if isinstance(outcome, Invalid):
                return outcome
        return None

    def _by_publisher(self, node: str, published: Object, command: W) -> W:
        """Return the command with the credentials of the node if the slice contains only devices of that node."""
        hollow = self._fleet.get(node)
        if hollow is None or not published["spec"].get("nodeName") or self._nodes.entry(node) is None:
            return command
        return in_name_of(hollow.user, command)


def _relevant(node: Object) -> tuple[str | None, ...]:
    """Return the annotations that determine what is published."""
    return (annotations_of(node).get(DEVICES), *asked_silence(node))


def devices_spec(fleet: Mapping[str, HollowNode]) -> ControllerSpec:
    def of_fleet(change: Change, _tables: Tables) -> Iterable[Key]:
        if change.key not in fleet:
            return ()
        is_same = not change.deleted and change.old is not None and _relevant(change.old) == _relevant(change.new)
        return () if is_same else (change.key,)

    def publisher(change: Change, _tables: Tables) -> Iterable[Key]:
        node = labels_of(change.new).get(PUBLISHER) or ""
        return (node,) if node in fleet else ()

    return ControllerSpec(
        name="hollow-devices-controller",
        never_blocks=True,
        client="hollow-devices",
        component="hollow-devices",
        queues=(
            Queue(
                watches=(Watch(NODES, to=of_fleet), Watch(RESOURCE_SLICES, to=publisher)),
                concurrency=MANY,
                terminal=(),
            ),
        ),
        indexes=(_SLICES_BY_NODE,),
        build=lambda context: HollowDevices(tables=context.tables, clock=context.clock, fleet=fleet),
    )
