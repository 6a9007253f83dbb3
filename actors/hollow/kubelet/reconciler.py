"""Kubelets of all hollow nodes: report the pods that are bound to these nodes as running. Key: pod.

A pod without delays is Running and Ready after one write of its status. A terminating pod is stopped, set to its final
phase, and deleted with grace period 0. Pods of nodes that do not exist, or are silent, are not processed. All kubelets
share one table and one watch; each writes with the credentials of its node.

Source: kubernetes v1.36 pkg/kubelet/pod_workers.go, status/status_manager.go. behaviour.py lists the annotations by
which users change the behaviour of a hollow pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from kcm.actors.controllers.storage.shared.pods_by_claim import PODS_BY_CLAIM
from kcm.actors.hollow import behaviour
from kcm.actors.hollow.intervals import MANY, look_again
from kcm.actors.hollow.kubelet import pod_status
from kcm.actors.hollow.kubelet.device_claims import KubeletClaims, claim_watch
from kcm.actors.hollow.kubelet.images import PodEvent
from kcm.actors.hollow.kubelet.pod_status import NO_MEMORIES, Memories, PodPlan, status_changes
from kcm.actors.hollow.kubelet.resize import RESIZABLE, Resized, allocated_spec, has_resources, resized
from kcm.actors.hollow.kubelet.volume_queues import volume_queues, waiting_watches
from kcm.actors.hollow.kubelet.volumes import POD_QUEUE, KubeletVolumes, has_begun
from kcm.actors.hollow.nodes.addresses import AddressBook, addresses_at, offset_of, pod_ranges
from kcm.actors.hollow.nodes.fleet import HollowNode
from kcm.actors.hollow.scheduler.demand import Port, host_ports, pod_requests
from kcm.actors.hollow.scheduler.devices.claim_facts import PODS_BY_DEVICE_CLAIM
from kcm.actors.hollow.scheduler.node_fit import is_taken, node_view
from kcm.actors.reconciliation import (
    Because,
    Change,
    Interest,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    delete,
    merge_status,
    must,
    record,
)
from kcm.actors.reconciliation.commands import in_name_of
from kcm.actors.reconciliation.derived import NODE, PODS_BY_NODE
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.outcomes import Conflict, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, metadata, name_of
from kcm.protocols.pods import is_terminal
from kcm.protocols.quantities import milli_value
from kcm.protocols.resources import NODES, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

# Default time to stop a pod with a running container, in seconds, in addition to the sleep of preStop hooks; a real
# kubelet takes longer. Without a delay a StatefulSet recreates the pod before `kubectl delete pod` has begun to watch,
# and kubectl then waits for the deletion of the new pod (its wait.IsDeleted gets the pod first, and lists and watches
# later).
TIME_TO_STOP = 0.3


def kubelet_watches(nodes: Collection[str]) -> tuple[Watch[Key], ...]:
    """Return the kubelet's watches. nodes: names of the hollow nodes."""
    return (
        Watch(PODS, to=_bound_to(nodes), interest=Interest(indexed=tuple((NODE, name) for name in nodes))),
        Watch(NODES, to=_pods_of(nodes), interest=Interest(types=(EventType.ADDED, EventType.MODIFIED))),
    )


def _bound_to(nodes: Collection[str]) -> Callable[[Change, Tables], Iterable[Key]]:
    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        entry = tables[PODS].entry(change.key)
        return (change.key,) if entry is None or entry.facts.node in nodes else ()

    return keys


def _pods_of(nodes: Collection[str]) -> Callable[[Change, Tables], Iterable[Key]]:
    """Return a function for the keys of all pods of a node that is added, becomes silent, or sends heartbeats again."""

    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        if change.key not in nodes or change.deleted:
            return ()
        old = change.old
        if change.type != EventType.ADDED and old is not None:
            if behaviour.asked_silence(change.new) == behaviour.asked_silence(old):
                return ()
        return [entry.key for entry in tables[PODS].indexed_entries(NODE, change.key)]

    return keys


class _Stopping(NamedTuple):
    """Monotonic time at which the containers of a pod began to stop."""

    uid: str
    since: float


class _Remembered(NamedTuple):
    """Memories of the containers of the pod with this uid."""

    uid: str
    memories: Memories


_NOTHING = _Remembered("", NO_MEMORIES)


class HollowKubelet:
    """Kubelets of all hollow nodes. Key: "namespace/name" of a pod.

    It remembers the addresses of pods, since when pods are stopping, and what a real kubelet keeps only in memory about
    containers: failed pulls, and failures that no longer count.
    """

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        fleet: Mapping[str, HollowNode],
        volumes: KubeletVolumes | None = None,
        claims: KubeletClaims | None = None,
    ) -> None:
        """Initialise for a fleet.

        volumes, claims: None to ignore PersistentVolumeClaims or ResourceClaims of pods.
        """
        self.volumes, self._claims = volumes, claims
        self._pods, self._nodes, self._clock, self._fleet = tables[PODS], tables[NODES], clock, fleet
        self._addresses = AddressBook()
        self._stopping: dict[Key, _Stopping] = {}
        self._remembered: dict[Key, _Remembered] = {}
        self._reported: dict[Key, tuple[str, ...]] = {}  # messages about invalid annotations

    def reconcile(self, key: Key) -> Reconciliation:
        entry = self._pods.entry(key)
        if entry is None:
            self._forget(key)
            return None
        facts = entry.facts
        hollow = self._fleet.get(facts.node)
        node = self._nodes.get(facts.node) if hollow is not None else None
        if hollow is None or node is None:
            return None
        now = self._clock.now()
        quiet = behaviour.silence(node, now=now)
        if quiet.silent:
            yield Because(f"its node {facts.node} is silent, as an annotation requests")
            return None if quiet.until is None else look_again(due=quiet.until, now=now)
        pod = self._pods.object_of(entry)
        if facts.deleting:
            return (yield from self._stop(hollow, entry, pod, node))
        if is_terminal(facts):
            self._forget(key)
            return None
        if behaviour.has_annotations(pod) or key in self._reported:
            yield from self._report(key, pod, hollow)
        if behaviour.is_set(pod, behaviour.REJECT) and not pod_status.has_started(pod):
            plan = pod_status.rejected(pod, capacity_milli_cpu=milli_value(hollow.cpu), now=now)
        elif not pod_status.has_started(pod) and self._lacks_ports(entry, pod):
            plan = pod_status.without_ports(pod, now=now)
        else:
            waiting = self._waiting(entry, pod, node, now=now)
            if waiting is not None:
                why = waiting.events[0].message if waiting.events else ""
                yield Because(f"waits for its volumes and ResourceClaims{': ' + why if why else ''}")
            plan = waiting or self._running(entry, pod, node, now=now)
        for pod_event in plan.events:
            path = _field_path(pod, pod_event)
            event = record(PODS, pod, pod_event.type, pod_event.reason, pod_event.message, field_path=path)
            yield msgspec.structs.replace(event, host=hollow.name, user=hollow.user)
        yield from self._write(hollow, pod, plan)
        return None if plan.due is None else look_again(due=plan.due, now=now)

    def _report(self, key: Key, pod: Object, hollow: HollowNode) -> Step[None]:
        """Record an event about each annotation that has become invalid."""
        messages, known = behaviour.invalid_pod_annotations(pod), self._reported.pop(key, ())
        if messages:
            self._reported[key] = messages
        for message in messages:
            if message not in known:
                event = record(PODS, pod, "Warning", "InvalidAnnotation", message)
                yield msgspec.structs.replace(event, host=hollow.name, user=hollow.user)

    def _lacks_ports(self, entry: Entry, pod: Object) -> bool:
        """Report whether another pod that runs on the node uses a host port that this pod requests."""
        wanted = host_ports(pod["spec"])
        if not wanted:
            return False
        taken: Counter[Port] = Counter()
        for other in self._pods.indexed_entries(NODE, entry.facts.node):
            if other.uid != entry.uid and not is_terminal(other.facts):
                obj = self._pods.object_of(other)
                if pod_status.has_started(obj):
                    taken.update(host_ports(obj["spec"]))
        return any(is_taken(port, taken) for port in wanted)

    def _waiting(self, entry: Entry, pod: Object, node: Object, *, now: float) -> PodPlan | None:
        """Return the plan of a pod that waits for its volumes or its devices, and None for other pods."""
        if has_begun(pod):
            return None
        wait = None if self.volumes is None else self.volumes.wait(entry, pod, node, now=now)
        if wait is None and self._claims is not None:
            wait = self._claims.wait(entry, pod, now=now)
        if wait is None:
            return None
        status = pod_status.creating(pod, host_ips=[self._fleet[name_of(node)].address], now=now)
        return PodPlan(status, wait.due, events=wait.events)

    def _running(self, entry: Entry, pod: Object, node: Object, *, now: float) -> PodPlan:
        remembered = self._remembered.get(entry.key, _NOTHING)
        plan = pod_status.running(
            pod,
            host_ips=[self._fleet[name_of(node)].address],
            pod_ips=self._pod_ips(entry, pod, node),
            now=now,
            memories=remembered.memories if remembered.uid == entry.uid else NO_MEMORIES,
            unpullable=behaviour.unpullable(node, pod),
            resized=self._resized(entry, pod, node, now=now),
        )
        if plan.memories:
            self._remembered[entry.key] = _Remembered(entry.uid, plan.memories)
        else:
            self._remembered.pop(entry.key, None)
        return plan

    def _resized(self, entry: Entry, pod: Object, node: Object, *, now: float) -> Resized | None:
        """Return the resources of a pod's containers; None for a pod without any."""
        if not has_resources(pod):
            return None
        asked = (behaviour.seconds(obj, behaviour.RESIZE_SECONDS) for obj in (pod, node))
        seconds = next((value for value in asked if value is not None), 0.0)
        return resized(pod, lack=lambda: self._lack(entry, pod, node), seconds=seconds, now=now)

    def _lack(self, entry: Entry, pod: Object, node: Object) -> str:
        """Return the message about the first resource of which the node has too little for the pod's requests."""
        room = node_view(node).allocatable
        used: Counter[str] = Counter()
        for other in self._pods.indexed_entries(NODE, entry.facts.node):
            if other.uid != entry.uid and not is_terminal(other.facts):
                used.update(pod_requests(allocated_spec(self._pods.object_of(other))))
        wanted = pod_requests(pod["spec"])
        for name in RESIZABLE:
            amount = wanted.get(name, 0)
            if amount > room.get(name, 0) - used[name]:
                amounts = f"requested: {amount}, used: {used[name]}, capacity: {room.get(name, 0)}"
                return f"Node didn't have enough resource: {name}, {amounts}"
        return ""

    def _write(self, hollow: HollowNode, pod: Object, plan: PodPlan) -> Step[None]:
        changes = status_changes(pod, plan.status)
        if changes:
            write = merge_status(PODS, pod, changes, ordered=False)
            yield from must(in_name_of(hollow.user, write), but=(NotFound,))

    def _stop(self, hollow: HollowNode, entry: Entry, pod: Object, node: Object) -> Step[RequeueAfter | None]:
        key, uid = entry.key, entry.uid
        grace = metadata(pod).get("deletionGracePeriodSeconds") or 0
        if not pod_status.has_started(pod) and not is_terminal(entry.facts):
            yield from self._write(hollow, pod, pod_status.NEVER_STARTED)
        elif not is_terminal(entry.facts):
            now = self._clock.monotonic()
            stopping = self._stopping.get(key)
            if stopping is None or stopping.uid != uid:
                stopping = self._stopping[key] = _Stopping(uid, now)
            needed = _seconds_to_stop(pod, node) if pod_status.has_running(pod) else 0.0
            due = stopping.since + min(needed, grace)
            if now < due:
                return look_again(due=due, now=now)
            yield from self._write(hollow, pod, pod_status.ended(pod, killed=needed > grace, now=self._clock.now()))
        self._forget(key)
        if grace == 0 and metadata(pod).get("finalizers"):
            return None  # already deleted except for its finalizers
        deletion = delete(PODS, entry, grace_seconds=0, depends_on=((PODS, key),))
        yield from must(in_name_of(hollow.user, deletion), but=(NotFound, Conflict))
        return None

    def _pod_ips(self, entry: Entry, pod: Object, node: Object) -> list[str]:
        """Return the pod's addresses, or allocate new ones. Raises ValueError if a range is exhausted."""
        name, spec = name_of(node), node.get("spec") or {}
        hollow = self._fleet[name]
        if pod["spec"].get("hostNetwork"):
            return [hollow.address]
        known = _ips_of(pod)
        if known:
            return known
        ranges = pod_ranges(tuple(spec.get("podCIDRs") or [spec.get("podCIDR") or hollow.pod_range]))
        if not self._addresses.knows(name):
            self._addresses.open(
                name,
                [
                    (other.key, other.uid, offset)
                    for other in self._pods.indexed_entries(NODE, name)
                    if not is_terminal(other.facts)
                    for address in _ips_of(self._pods.object_of(other))[:1]
                    if (offset := offset_of(ranges, address)) is not None
                ],
            )
        size = min(network.num_addresses for network in ranges)
        return addresses_at(ranges, self._addresses.assign(entry.key, entry.uid, name, size=size))

    def _forget(self, key: Key) -> None:
        self._addresses.release(key)
        self._stopping.pop(key, None)
        self._remembered.pop(key, None)
        self._reported.pop(key, None)
        if self.volumes is not None:
            self.volumes.forget(key)
        if self._claims is not None:
            self._claims.forget(key)


def _field_path(pod: Object, event: PodEvent) -> str:
    """Return the field path of the container that an event refers to; "" for events of the pod."""
    if not event.container:
        return ""
    for field in ("initContainers", "ephemeralContainers"):
        if any(container["name"] == event.container for container in pod["spec"].get(field) or ()):
            return f"spec.{field}{{{event.container}}}"
    return f"spec.containers{{{event.container}}}"


def _ips_of(pod: Object) -> list[str]:
    return [statu["ip"] for statu in (pod.get("status") or {}).get("podIPs") or ()]


def _seconds_to_stop(pod: Object, node: Object) -> float:
    for asked in (pod, node):
        seconds = behaviour.seconds(asked, behaviour.TERMINATE_AFTER)
        if seconds is not None:
            return seconds
    containers = [container for kind in ("initContainers", "containers") for container in pod["spec"].get(kind) or ()]
    hooks = (((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep") or {} for container in containers)
    return TIME_TO_STOP + max((float(hook.get("seconds") or 0) for hook in hooks), default=0.0)


def kubelet_spec(fleet: Mapping[str, HollowNode], *, volumes: bool = False, devices: bool = False) -> ControllerSpec:
    """Return the spec of the kubelets.

    volumes: let pods wait for their PersistentVolumeClaims, and until volumes are mounted.
    devices: let pods wait until their ResourceClaims are reserved for them.
    """
    watches = (*kubelet_watches(fleet), *((claim_watch(fleet),) if devices else ()))

    def build(context: ControllerContext) -> HollowKubelet:
        of_pods = KubeletVolumes(tables=context.tables, clock=context.clock, fleet=fleet) if volumes else None
        claims = KubeletClaims(context.tables) if devices else None
        return HollowKubelet(tables=context.tables, clock=context.clock, fleet=fleet, volumes=of_pods, claims=claims)

    return ControllerSpec(
        name="hollow-kubelet-controller",
        never_blocks=True,
        client="hollow-kubelet",
        component="kubelet",
        queues=(
            Queue(
                POD_QUEUE,
                watches=(*watches, *waiting_watches(fleet)) if volumes else watches,
                concurrency=MANY,
                terminal=(),
            ),
            *(volume_queues(fleet) if volumes else ()),
        ),
        indexes=(
            PODS_BY_NODE,
            *((PODS_BY_CLAIM,) if volumes else ()),
            *((PODS_BY_DEVICE_CLAIM,) if devices else ()),
        ),
        build=build,
    )
