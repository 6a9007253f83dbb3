"""Small scheduler: binds pods to nodes. Key: pod.

It considers requests, nodeSelector, required node affinity, taints, unschedulable nodes, host ports and claims. It
spreads the pods of one owner over zones and nodes, and prefers the node with more free resources. There are no
priorities. A pod that fits no node is retried after a change of nodes or when pods end, but not before its backoff has
passed (1 to 10 s), as upstream.

Source: kubernetes v1.36 pkg/scheduler/{schedule_one.go,eventhandlers.go}, pkg/scheduler/backend/queue.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from kcm.actors.controllers.storage.persistentvolume_binder.matching import (
    UNCLAIMED_VOLUMES,
    VOLUME_FACTS,
    VOLUMES_BY_CLAIM,
)
from kcm.actors.controllers.storage.persistentvolume_binder.spec import CLAIM_FACTS
from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS, PODS_BY_CLAIM
from kcm.actors.hollow.attacher import ATTACHMENTS_BY_NODE
from kcm.actors.hollow.intervals import MANY, look_again
from kcm.actors.hollow.scheduler.demand import Demand, demand_of
from kcm.actors.hollow.scheduler.node_fit import (
    UNUSED,
    NodeView,
    best,
    failure_message,
    interleaved,
    misfits,
    node_view,
    nodes_to_find,
)
from kcm.actors.hollow.scheduler.placements import Placement, Placements
from kcm.actors.hollow.scheduler.volume_limits import limit_watches
from kcm.actors.hollow.scheduler.volumes import NOTHING, Claimed, PodVolumes, UnresolvableError
from kcm.actors.reconciliation import (
    Change,
    Interest,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    merge_status,
    must,
    record,
)
from kcm.actors.reconciliation.derived import NODE, PODS_BY_NODE
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.conditions import changed_condition
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, encode_object, split_key
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from kcm.protocols.volumes import claims_of, class_of, key_of_reference
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

SCHEDULER_NAME = "default-scheduler"
FIRST_BACKOFF, MOST_BACKOFF = 1.0, 10.0
# Waiting pods that one change enqueues; the others are retried every MOST_BACKOFF seconds at the latest.
MOST_WOKEN = 500


def scheduler_watches() -> tuple[Watch[Key], ...]:
    """Return the watches.

    Every change of a pod is relevant: a resize of a bound pod changes no derived fact of the table.
    """
    return (
        Watch(PODS, to=_pod_and_those_that_wait_for_room),
        Watch(NODES, to=_those_that_wait_for_a_node, interest=Interest(types=(EventType.ADDED, EventType.MODIFIED))),
    )


def _pod_and_those_that_wait_for_room(change: Change, tables: Tables) -> Iterable[Key]:
    yield change.key
    entry = None if change.deleted else tables[PODS].entry(change.key)
    if change.deleted or (entry is not None and is_terminal(entry.facts)):
        yield from _waiting(tables)


def _those_that_wait_for_a_node(change: Change, tables: Tables) -> Iterable[Key]:
    if change.deleted:
        return ()
    if change.type != EventType.ADDED and change.old is not None and node_view(change.old) == node_view(change.new):
        return ()  # a heartbeat
    return _waiting(tables)


def volume_watches() -> tuple[Watch[Key], ...]:
    return (
        Watch(PERSISTENT_VOLUME_CLAIMS, to=_those_that_use_claim),
        Watch(PERSISTENT_VOLUMES, to=_those_that_wait_for_volume, interest=Interest(changed=("phase", "claim"))),
        Watch(STORAGE_CLASSES, to=_those_that_wait_for_class, interest=Interest(types=(EventType.ADDED,))),
        *limit_watches(_waiting),
    )


def _those_that_use_claim(change: Change, tables: Tables) -> Iterable[Key]:
    return _users(tables, change.key)


def _those_that_wait_for_volume(change: Change, tables: Tables) -> Iterable[Key]:
    reference = (change.new.get("spec") or {}).get("claimRef")
    if reference is not None:
        return _users(tables, key_of_reference(reference))
    return _users_of_class(tables, class_of(change.new))


def _those_that_wait_for_class(change: Change, tables: Tables) -> Iterable[Key]:
    return _users_of_class(tables, change.key)


def _users_of_class(tables: Tables, class_: str) -> Iterable[Key]:
    for claim in tables[PERSISTENT_VOLUME_CLAIMS].entries():
        if claim.facts.class_ == class_ and claim.facts.phase != "Bound":
            yield from _users(tables, claim.key)


def _users(tables: Tables, claim: Key) -> Iterable[Key]:
    return (entry.key for entry in tables[PODS].indexed_entries(CLAIMS, claim) if not entry.facts.node)


def _waiting(tables: Tables) -> Iterable[Key]:
    return (entry.key for entry in islice(tables[PODS].indexed_entries(NODE, ""), MOST_WOKEN))


class _Wait(Struct):
    """State of an unschedulable pod.

    changes: the count of node changes and releases at the last attempt.
    until: earliest time of the next attempt, in monotonic seconds.
    """

    demand: Demand
    attempts: int = 0
    changes: int = -1
    until: float = 0.0
    looks: int = 0

    def backoff(self, tries: int) -> float:
        return min(MOST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(tries - 1, 10))


class HollowScheduler:
    """Reconciler of the scheduler. Key: "namespace/name" of a pod. It remembers placements and unschedulable pods."""

    def __init__(self, *, tables: Tables, clock: Clock, volumes: PodVolumes | None = None) -> None:
        """Initialise the scheduler. volumes: None to ignore claims of pods."""
        self._pods, self._nodes, self._clock = tables[PODS], tables[NODES], clock
        self._volumes = volumes
        self._placements: Placements | None = None
        self._views: dict[str, tuple[Entry, NodeView]] = {}
        self._order: list[NodeView] = []
        self._node_changes = 0
        self._start = 0  # index of the node at which the next search begins
        self._waits: dict[Key, _Wait] = {}
        self._prepared: dict[Key, str] = {}  # pods whose claims are being bound, with the chosen node

    def reconcile(self, key: Key) -> Reconciliation:
        placements = self._placements
        if placements is None:
            placements = self._placements = self._all_placements()
        entry = self._pods.entry(key)
        self._account(placements, key, entry)
        if entry is None or not _is_unassigned(entry) or placements.get(key) is not None:
            self._waits.pop(key, None)
            self._prepared.pop(key, None)
            return None
        pod = self._pods.object_of(entry)
        if not _is_ours(pod):
            return None
        demand = placements.shared(demand_of(pod, controller=entry.controller))
        self._look_at_nodes()
        has_claims = self._volumes is not None and any(claims_of(pod))
        later = self._too_early(key, demand, placements, has_claims=has_claims)
        if later is not None:
            return later
        claimed = NOTHING
        if self._volumes is not None and has_claims:
            try:
                claimed = self._volumes.look(pod, placements)
            except UnresolvableError as err:
                return (yield from self._wait(key, pod, demand, placements, unusable_message(len(self._order), err)))
        chosen, reasons = self._prepared_node(key, demand, placements, claimed), Counter[str]()
        if chosen is None:
            chosen, reasons = self._choose(demand, placements, claimed)
        if chosen is None:
            message = failure_message(len(self._order), reasons)
            return (yield from self._wait(key, pod, demand, placements, message))
        if self._volumes is not None and not (yield from self._volumes.prepare(claimed, chosen)):
            self._prepared[key] = chosen.name
            return RequeueAfter(MOST_BACKOFF)  # its claims are being bound, and their changes enqueue the pod
        yield from self._bind(key, entry, pod, Placement(entry.uid, chosen.name, demand, assumed=True), placements)
        return None

    def _all_placements(self) -> Placements:
        placements = Placements()
        for entry in self._pods.entries():
            with contextlib.suppress(ValueError):  # an invalid pod, which its own reconciliation reports
                self._account(placements, entry.key, entry)
        return placements

    def _account(self, placements: Placements, key: Key, entry: Entry | None) -> None:
        """Record the placement of a pod as the table shows it, except if the table does not show our binding yet."""
        known = placements.get(key)
        if entry is None or is_terminal(entry.facts):
            placements.remove(key)
        elif entry.facts.node:
            demand = demand_of(self._pods.object_of(entry), controller=entry.controller)
            placements.put(key, Placement(entry.uid, entry.facts.node, demand, assumed=False))
        elif known is not None and not (known.assumed and known.uid == entry.uid):
            placements.remove(key)

    def _look_at_nodes(self) -> None:
        """Update the views of all nodes, their order, and the count of node changes."""
        entries = self._nodes.entries()
        changed = len(entries) != len(self._views)
        for entry in entries:
            known = self._views.get(entry.key)
            if known is None or known[0] is not entry:
                view = node_view(self._nodes.object_of(entry))
                changed = changed or known is None or known[1] != view
                self._views[entry.key] = (entry, view)
        if changed:
            there = {entry.key for entry in entries}
            self._views = {name: known for name, known in self._views.items() if name in there}
            self._order = interleaved([view for _, view in self._views.values()])
            self._node_changes += 1

    def _too_early(self, key: Key, demand: Demand, placements: Placements, *, has_claims: bool) -> RequeueAfter | None:
        """Return a requeue if it is too early to retry an unschedulable pod, else None.

        Changes of claims are not counted.
        """
        wait = self._waits.get(key)
        if wait is None or wait.demand != demand:
            return None
        now = self._clock.monotonic()
        if now < wait.until:
            return look_again(due=wait.until, now=now)
        if wait.changes == self._node_changes + placements.releases and not has_claims:
            wait.looks += 1
            return RequeueAfter(wait.backoff(wait.looks))
        return None

    def _prepared_node(self, key: Key, demand: Demand, placements: Placements, claimed: Claimed) -> NodeView | None:
        """Return the node for which the pod's claims were bound, or None if the pod no longer fits it."""
        known = self._views.get(self._prepared.get(key, ""))
        if known is None or self._volumes is None:
            return None
        node = known[1]
        usage = placements.usages.get(node.name, UNUSED)
        why = misfits(demand, node, usage) or self._volumes.misfits(claimed, node, usage)
        return None if why else node

    def _choose(self, demand: Demand, placements: Placements, claimed: Claimed) -> tuple[NodeView | None, Counter[str]]:
        """Return the node to bind the pod to, or None and the number of nodes per reason if it fits no node."""
        order, usages = self._order, placements.usages
        enough = nodes_to_find(len(order))
        fitting: list[NodeView] = []
        reasons: Counter[str] = Counter()
        looked_at = 0
        for looked_at in range(1, len(order) + 1):
            node = order[(self._start + looked_at - 1) % len(order)]
            usage = usages.get(node.name, UNUSED)
            why = misfits(demand, node, usage)
            if not why and self._volumes is not None and claimed is not NOTHING:
                why = self._volumes.misfits(claimed, node, usage)
            if why:
                reasons.update(why)
                continue
            fitting.append(node)
            if len(fitting) >= enough:
                break
        if order:  # after a complete search, advance by one node, so that equal nodes take turns
            self._start = (self._start + (looked_at if looked_at < len(order) else 1)) % len(order)
        if not fitting:
            return None, reasons
        return best(demand, fitting, usages, placements.siblings(demand.owner)), reasons

    def _bind(self, key: Key, entry: Entry, pod: Object, placement: Placement, placements: Placements) -> Step[None]:
        namespace, name = split_key(key)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": entry.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": placement.node},
        }
        command = Create(PODS.id, namespace, encode_object(binding), name=name, subresource="binding")
        placements.put(key, placement)
        outcome = yield command
        if isinstance(outcome, Done):
            yield record(PODS, pod, "Normal", "Scheduled", f"Successfully assigned {key} to {placement.node}")
            return
        placements.remove(key)
        # The pod was deleted, bound by another program, or replaced: its event enqueues it.
        if not isinstance(outcome, NotFound | Conflict):
            raise CommandError(command, outcome)

    def _wait(self, key: Key, pod: Object, demand: Demand, placements: Placements, message: str) -> Step[RequeueAfter]:
        """Record why the pod is unschedulable, and retry later."""
        wait = self._waits.get(key)
        if wait is None or wait.demand != demand:
            wait = self._waits[key] = _Wait(demand)
        wait.attempts, wait.looks = wait.attempts + 1, 0
        wait.changes = self._node_changes + placements.releases
        backoff = wait.backoff(wait.attempts)
        wait.until = self._clock.monotonic() + backoff
        yield record(PODS, pod, "Warning", "FailedScheduling", message)
        conditions = (pod.get("status") or {}).get("conditions")
        condition = changed_condition(
            conditions, "PodScheduled", False, "Unschedulable", message, now=self._clock.now()
        )
        if condition is not None:
            yield from must(merge_status(PODS, pod, {"conditions": [condition]}), but=(NotFound, Conflict))
        return RequeueAfter(backoff)


def _is_unassigned(entry: Entry) -> bool:
    facts = entry.facts
    return not facts.node and not facts.deleting and not is_terminal(facts)


def _is_ours(pod: Object) -> bool:
    spec = pod["spec"]
    return (spec.get("schedulerName") or SCHEDULER_NAME) == SCHEDULER_NAME and not spec.get("schedulingGates")


def unusable_message(nodes: int, why: UnresolvableError) -> str:
    """Return the message if no node can be used, whatever its resources."""
    return f"0/{nodes} nodes are available: {why}."


CLIENT = "hollow-scheduler"


def scheduler_spec(*, volumes: bool = True) -> ControllerSpec:
    """Return the spec of the hollow scheduler.

    volumes: let pods wait for their claims, and select nodes for claims that wait for a pod. Otherwise claims and
        volumes are not watched.
    """
    return ControllerSpec(
        name="hollow-scheduler-controller",
        never_blocks=True,
        client=CLIENT,
        component=SCHEDULER_NAME,
        queues=(
            Queue(
                watches=(*scheduler_watches(), *(volume_watches() if volumes else ())),
                concurrency=MANY,
                terminal=(),
            ),
        ),
        indexes=(
            PODS_BY_NODE,
            *((PODS_BY_CLAIM, VOLUMES_BY_CLAIM, UNCLAIMED_VOLUMES, ATTACHMENTS_BY_NODE) if volumes else ()),
        ),
        facts=(VOLUME_FACTS, CLAIM_FACTS) if volumes else (),
        build=lambda context: HollowScheduler(
            tables=context.tables,
            clock=context.clock,
            volumes=PodVolumes(context.tables) if volumes else None,
        ),
    )
