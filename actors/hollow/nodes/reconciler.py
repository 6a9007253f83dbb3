"""Hollow nodes: registers them and sends their heartbeats. Key: node name.

A node's Lease is renewed every 10 s. Its status is written if it differs from the kubelet's, or was last written 5 min
ago. Both are spread over time, so that a thousand nodes do not write at once. As with a real kubelet, a deleted node is
not registered again before a restart (of this controller's actor); heartbeats resume if a user creates it manually.
Hollow nodes of an earlier, larger fleet are deleted, because no kubelet would run their pods; this is the only request
that is not sent with a node's credentials.

Source: kubernetes v1.36 pkg/kubelet/kubelet_node_status.go, component-helpers/apimachinery/lease/controller.go. Unlike
upstream, the Lease is not read: each renewal is a patch, and the Lease is created if the patch returns NotFound.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping

from msgspec import Struct

from kcm.actors.hollow.behaviour import Silence, heartbeat_interval, invalid_annotations, reports_ready, silence
from kcm.actors.hollow.intervals import MANY, look_again
from kcm.actors.hollow.nodes.fleet import HollowNode
from kcm.actors.hollow.nodes.objects import (
    LEASE_NAMESPACE,
    default_labels,
    lease_spec,
    machine_status,
    new_lease,
    new_node,
    status_changes,
)
from kcm.actors.reconciliation import (
    Change,
    Enqueue,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    create,
    delete,
    itself,
    must,
    patch,
    record,
    together,
)
from kcm.actors.reconciliation.commands import in_name_of
from kcm.actors.reconciliation.element_order import in_element_order
from kcm.actors.reconciliation.specs import ControllerSpec, Pass, Queue
from kcm.protocols.hollow_nodes import is_hollow
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, PatchType
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, Done, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, labels_of, make_key, name_of, uid_of
from kcm.protocols.resources import LEASES, NODES
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

LEASE_INTERVAL = 10.0  # seconds
STATUS_INTERVAL = 300.0
JITTER = 0.04  # fraction of an interval
RETRY = 1.0
QUEUE = "hollow-nodes"


def node_watches(fleet: Mapping[str, HollowNode]) -> tuple[Watch[Key], ...]:
    """Return the watches: nodes of the fleet at every change, other nodes only when added, to delete surplus nodes."""

    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        return itself(change, tables) if change.key in fleet or change.type == EventType.ADDED else ()

    return (Watch(NODES, to=keys),)


def spread(name: str, beat: int) -> float:
    """Return a number in [0, 1), evenly distributed, that depends only on the node and the number of the beat."""
    digest = hashlib.blake2b(f"{name}/{beat}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32


class _Kubelet(Struct):
    """State of a running kubelet. Times are monotonic.

    due: time of the next heartbeat.
    status_due: time of the next status write if the status does not change.
    """

    machine: Object
    beats: int = 0
    due: float = 0.0
    status_beats: int = 0
    status_due: float = 0.0


class HollowNodes:
    """Reconciler of hollow nodes. Key: name of a node. It remembers the heartbeats of each node."""

    def __init__(
        self, *, tables: Tables, clock: Clock, fleet: Mapping[str, HollowNode], heartbeat: float = LEASE_INTERVAL
    ) -> None:
        """Initialise for a fleet. heartbeat: default interval of heartbeats, in seconds."""
        self._nodes, self._clock, self._fleet = tables[NODES], clock, fleet
        self._heartbeat = heartbeat
        self._kubelets: dict[str, _Kubelet] = {}  # kubelets that have registered their node
        self._reported: dict[str, tuple[str, ...]] = {}  # by node, the messages about its invalid annotations

    def enqueue_fleet(self) -> Reconciliation:
        """Enqueue all nodes once at the start: a node that does not exist yet causes no watch event."""
        for name in self._fleet:
            yield Enqueue(QUEUE, name)
        return None

    def reconcile(self, key: Key) -> Reconciliation:
        hollow = self._fleet.get(key)
        node = self._nodes.get(key)
        if hollow is None:
            if node is not None and is_hollow(node):
                yield from must(delete(NODES, node, depends_on=((NODES, key),)), but=(NotFound, Conflict))
            return None
        quiet = Silence(False, None) if node is None else silence(node, now=self._clock.now())
        if quiet.silent:  # the next change of the node enqueues it
            return None if quiet.until is None else look_again(due=quiet.until, now=self._clock.now())
        kubelet = self._kubelets.get(key)
        if kubelet is None:
            node = yield from self._register(hollow, node)
            if node is None:
                return RequeueAfter(RETRY)
            kubelet = self._kubelets[key] = _Kubelet(machine_status(hollow))
        if node is None:
            return None
        yield from self._report(node)
        now = self._clock.monotonic()
        # A shorter heartbeat interval takes effect at once.
        kubelet.due = min(kubelet.due, now + heartbeat_interval(node, usual=self._heartbeat) * (1 + JITTER))
        if now >= kubelet.due:
            yield from self._send_heartbeat(kubelet, node, hollow, now)
        return look_again(due=kubelet.due, now=now)

    def _register(self, hollow: HollowNode, node: Object | None) -> Step[Object | None]:
        """Register the node and return it; None if another client has created it and the table does not show it yet."""
        if node is None:
            made = in_name_of(hollow.user, create(NODES, new_node(hollow, now=self._clock.now())))
            outcome = yield from must(made, but=(AlreadyExists,))
            return self._nodes.get(hollow.name) if isinstance(outcome, Done) else None
        labels = labels_of(node)
        missing = {name: value for name, value in default_labels(hollow).items() if labels.get(name) != value}
        if missing:
            labelled = patch(NODES, hollow.name, {"metadata": {"uid": uid_of(node), "labels": missing}})
            yield from must(in_name_of(hollow.user, labelled))
        return node

    def _report(self, node: Object) -> Step[None]:
        """Record an event about each annotation that has become invalid."""
        messages, known = invalid_annotations(node), self._reported.pop(name_of(node), ())
        if messages:
            self._reported[name_of(node)] = messages
        for message in messages:
            if message not in known:
                yield record(NODES, node, "Warning", "InvalidAnnotation", message)

    def _send_heartbeat(self, kubelet: _Kubelet, node: Object, hollow: HollowNode, started: float) -> Step[None]:
        """Renew the Lease and, if it changed or is due, write the status; both requests are sent together."""
        name, user, now = hollow.name, hollow.user, self._clock.now()
        renewal = patch(LEASES, make_key(LEASE_NAMESPACE, name), {"spec": lease_spec(name, now=now)})
        commands: list[Command] = [in_name_of(user, renewal)]
        due = started >= kubelet.status_due
        changes = status_changes(node, kubelet.machine, now=now, heartbeat=due, ready=reports_ready(node))
        if changes:
            body = {"status": in_element_order(node.get("status") or {}, changes)}
            status_patch = patch(NODES, name, body, patch_type=PatchType.STRATEGIC, subresource="status")
            commands.append(in_name_of(user, status_patch))
        renewed, *written = yield from together(commands)
        if isinstance(renewed, NotFound):
            commands[0] = in_name_of(user, create(LEASES, new_lease(node, now=now)))
            renewed = yield commands[0]
        for command, outcome in zip(commands, (renewed, *written), strict=True):
            # NotFound: the node was deleted, and its event will follow.
            if not isinstance(outcome, Done | NotFound):
                raise CommandError(command, outcome)
        interval = heartbeat_interval(node, usual=self._heartbeat)
        kubelet.beats, kubelet.due = _next(name, kubelet.beats, interval, started)
        if changes:
            kubelet.status_beats, kubelet.status_due = _next(name, kubelet.status_beats, STATUS_INTERVAL, started)


def _next(name: str, beats: int, interval: float, now: float) -> tuple[int, float]:
    """Return the number of the next beat, and its time."""
    share = spread(name, beats)
    # The first interval has a random length, so that nodes that started together are spread.
    return beats + 1, now + interval * (share if beats == 0 else 1 + JITTER * share)


def nodes_spec(fleet: Mapping[str, HollowNode], *, heartbeat: float = LEASE_INTERVAL) -> ControllerSpec:
    """Return the spec of the hollow-nodes controller. heartbeat: see HollowNodes."""
    return ControllerSpec(
        name="hollow-nodes-controller",
        never_blocks=True,
        client="hollow-nodes",
        component="kubelet",
        queues=(Queue(QUEUE, watches=node_watches(fleet), concurrency=MANY, terminal=()),),
        passes=(Pass("fleet", every=math.inf, run=HollowNodes.enqueue_fleet),),
        build=lambda context: HollowNodes(tables=context.tables, clock=context.clock, fleet=fleet, heartbeat=heartbeat),
    )
