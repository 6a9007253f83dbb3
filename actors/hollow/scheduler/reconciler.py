"""Small scheduler: binds pods to nodes. Key: pod.

It considers requests, nodeSelector, node affinity, taints, unschedulable nodes, host ports, affinity between pods,
topology spread constraints, volumes and devices. It spreads the pods of one owner over zones and nodes, and prefers the
node with more free resources. If a pod fits no node, pods of lower priority are preempted. A pod that cannot be
scheduled is retried after a change of nodes or when pods end, but not before its backoff has passed (1 to 10 s), as
upstream. Unlike upstream, waiting pods are not tried in the order of their priorities.

Source: kubernetes v1.36 pkg/scheduler/{schedule_one.go,eventhandlers.go}, pkg/scheduler/backend/queue.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kcm.actors.controllers.storage.persistentvolume_binder.matching import (
    UNCLAIMED_VOLUMES,
    VOLUME_FACTS,
    VOLUMES_BY_CLAIM,
)
from kcm.actors.controllers.storage.persistentvolume_binder.spec import CLAIM_FACTS
from kcm.actors.controllers.storage.shared.pods_by_claim import PODS_BY_CLAIM
from kcm.actors.hollow.attacher import ATTACHMENTS_BY_NODE
from kcm.actors.hollow.intervals import MANY, look_again
from kcm.actors.hollow.scheduler.demand import Demand, demand_of
from kcm.actors.hollow.scheduler.devices.claim_facts import CLAIMS_BY_DEVICE, PODS_BY_DEVICE_CLAIM, has_claims
from kcm.actors.hollow.scheduler.devices.claims import NO_CLAIMS, NO_DEVICES, PodDevices
from kcm.actors.hollow.scheduler.devices.requests import AllocationError
from kcm.actors.hollow.scheduler.filters import Filters, Rejection, SchedulingAttempt, counted
from kcm.actors.hollow.scheduler.neighbours import Neighbours, is_concerned
from kcm.actors.hollow.scheduler.node_fit import (
    UNUSED,
    NodeView,
    best,
    failure_message,
    interleaved,
    misfits,
    node_view,
    nodes_to_find,
    preferences,
)
from kcm.actors.hollow.scheduler.placements import Nomination, Nominations, Placement, Placements
from kcm.actors.hollow.scheduler.preemptor import PreemptionPlan, Preemptor, nomination_of
from kcm.actors.hollow.scheduler.volumes import NOTHING, PodVolumes, UnresolvableError
from kcm.actors.hollow.scheduler.watches import device_watches, scheduler_watches, volume_watches
from kcm.actors.reconciliation import Reconciliation, RequeueAfter, Step, merge_status, must, record
from kcm.actors.reconciliation.derived import PODS_BY_NODE
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.conditions import changed_condition
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.objects import Key, Object, encode_object, labels_of, split_key
from kcm.protocols.pods import PodFacts, is_terminal
from kcm.protocols.resources import NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, PODS, Resource
from kcm.protocols.volumes import claims_of
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

SCHEDULER_NAME = "default-scheduler"
FIRST_BACKOFF, MOST_BACKOFF = 1.0, 10.0
PODS_WEIGHT = 2.0  # of preferences about other pods; the weight of free resources is 1


class _Wait(Struct):
    """State of an unschedulable pod.

    changes: the count of changes that may help the pod at the last attempt.
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

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        volumes: PodVolumes | None = None,
        devices: PodDevices | None = None,
        preemptor: Preemptor | None = None,
    ) -> None:
        """Initialise the scheduler.

        volumes, devices: None to ignore the PersistentVolumeClaims or ResourceClaims of pods.
        preemptor: None to preempt no pods.
        """
        self._tables, self._clock = tables, clock
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._volumes, self._devices, self._preemptor = volumes, devices, preemptor
        self._filters = Filters(volumes, devices)
        self._placements: Placements | None = None
        self._nominations = Nominations()
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
            self._nominations.remove(key)
            return None
        pod = self._pods.object_of(entry)
        if not _is_ours(pod):
            return None
        if self._devices is not None and has_claims(pod) and self._devices.is_gated(pod):
            return None  # a change of the pod or of its claims enqueues it
        demand = placements.shared(demand_of(pod, controller=entry.controller))
        self._look_at_nodes()
        later = self._too_early(key, pod, demand, placements)
        if later is not None:
            return later
        self._look_at_nomination(key, entry, pod, demand)
        attempt = SchedulingAttempt(key, entry, pod, demand)
        if is_concerned(demand.terms_about_pods, placements):
            attempt = attempt._replace(neighbours=self._neighbours(pod, demand, placements))
        try:
            if self._volumes is not None and any(claims_of(pod)):
                attempt = attempt._replace(claimed=self._volumes.look(pod, placements))
        except UnresolvableError as err:
            # kube-scheduler's message ends with the error of a plugin that lacks the state of an earlier phase.
            message = f"{unusable_message(len(self._order), err)} not found"
            return (yield from self._wait(attempt, placements, message, PreemptionPlan(keeps_nomination=True)))
        try:
            if self._devices is not None and has_claims(pod):
                attempt = attempt._replace(devices=self._devices.requested(pod))
            chosen, rejections = self._choose(attempt, placements)
        except UnresolvableError as err:
            return (yield from self._give_up(attempt, placements, unusable_message(len(self._order), err), ()))
        except AllocationError as err:
            message = f'running "DynamicResources" filter plugin: {err}'
            return (yield from self._wait(attempt, placements, message, PreemptionPlan(), reason="SchedulerError"))
        if chosen is None:
            message = failure_message(len(self._order), counted(rejections))
            return (yield from self._give_up(attempt, placements, message, rejections))
        if not (yield from self._prepare(attempt, chosen)):
            self._prepared[key] = chosen.name
            return RequeueAfter(MOST_BACKOFF)  # its claims are being bound, and their changes enqueue the pod
        yield from self._bind(attempt, Placement(entry.uid, chosen.name, demand, assumed=True), placements)
        return None

    def _neighbours(self, pod: Object, demand: Demand, placements: Placements) -> Neighbours:
        def facts(key: Key) -> PodFacts | None:
            entry = self._pods.entry(key)
            return None if entry is None else entry.facts

        def view(name: str) -> NodeView | None:
            known = self._views.get(name)
            return None if known is None else known[1]

        def namespace_labels(name: str) -> Mapping[str, str]:
            namespace = self._tables[NAMESPACES].get(name)
            return {} if namespace is None else labels_of(namespace)

        return Neighbours(
            pod,
            demand,
            placements,
            facts=facts,
            nodes=view,
            all_nodes=self._order,
            namespace_labels=namespace_labels,
        )

    def _prepare(self, attempt: SchedulingAttempt, node: NodeView) -> Step[bool]:
        """Bind the claims of the pod for this node, and return whether all of them are bound."""
        if self._volumes is not None and not (yield from self._volumes.prepare(attempt.claimed, node)):
            return False
        if self._devices is None or attempt.devices is NO_DEVICES:
            return True
        return (yield from self._devices.prepare(attempt.devices, attempt.pod, node))

    def _all_placements(self) -> Placements:
        placements = Placements()
        for entry in self._pods.entries():
            with contextlib.suppress(ValueError):  # an invalid pod, which its own reconciliation reports
                self._account(placements, entry.key, entry)
                if self._preemptor is not None and _is_unassigned(entry):
                    pod = self._pods.object_of(entry)
                    if (pod.get("status") or {}).get("nominatedNodeName"):
                        self._look_at_nomination(entry.key, entry, pod, demand_of(pod, controller=entry.controller))
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

    def _look_at_nomination(self, key: Key, entry: Entry, pod: Object, demand: Demand) -> None:
        """Record the nomination that the table shows. A nomination that it does not show yet is kept."""
        node = (pod.get("status") or {}).get("nominatedNodeName")
        if node:
            self._nominations.put(key, Nomination(entry.uid, node, demand))

    def _look_at_nodes(self) -> None:
        """Update the views of all nodes, their order, and the count of node changes."""
        entries = self._nodes.entries()
        changed = len(entries) != len(self._views)
        for entry in entries:
            known = self._views.get(entry.key)
            if known is None or known[0] is not entry:
                view = node_view(self._nodes.object_of(entry))
                if known is None or known[1] != view:
                    changed = True
                else:
                    view = known[1]
                self._views[entry.key] = (entry, view)
        if changed:
            there = {entry.key for entry in entries}
            self._views = {name: known for name, known in self._views.items() if name in there}
            self._order = interleaved([view for _, view in self._views.values()])
            self._node_changes += 1

    def _changes(self, pod: Object, placements: Placements) -> int:
        """Return a number that rises with every change that may help an unschedulable pod."""
        changes = self._node_changes + placements.releases
        about_pods = (pod["spec"].get("affinity") or {}).keys() & {"podAffinity", "podAntiAffinity"}
        if about_pods or pod["spec"].get("topologySpreadConstraints"):
            changes += self._pods.version
        return changes + self._devices.version if self._devices is not None and has_claims(pod) else changes

    def _too_early(self, key: Key, pod: Object, demand: Demand, placements: Placements) -> RequeueAfter | None:
        """Return a requeue if it is too early to retry an unschedulable pod, else None.

        Changes of PersistentVolumeClaims are not counted.
        """
        wait = self._waits.get(key)
        if wait is None or wait.demand != demand:
            return None
        now = self._clock.monotonic()
        if now < wait.until:
            return look_again(due=wait.until, now=now)
        has_volumes = self._volumes is not None and any(claims_of(pod))
        if wait.changes == self._changes(pod, placements) and not has_volumes:
            wait.looks += 1
            return RequeueAfter(wait.backoff(wait.looks))
        return None

    def _choose(
        self, attempt: SchedulingAttempt, placements: Placements
    ) -> tuple[NodeView | None, Sequence[Rejection]]:
        """Return the node to bind the pod to, or None and all nodes with the reasons why it does not fit them.

        Raises AllocationError.
        """
        demand = attempt.demand
        for name in self._first_choices(attempt):
            known = self._views.get(name)
            if known is not None and not self._misfits(attempt, known[1], placements):
                return known[1], ()
        order, usages = self._order, placements.usages
        enough = nodes_to_find(len(order))
        fitting: list[NodeView] = []
        rejections: list[Rejection] = []
        is_plain = (
            attempt.claimed is NOTHING
            and attempt.devices is NO_DEVICES
            and attempt.neighbours is None
            and not self._nominations
        )
        looked_at = 0
        for looked_at in range(1, len(order) + 1):
            node = order[(self._start + looked_at - 1) % len(order)]
            if is_plain:
                why = misfits(demand, node, usages.get(node.name, UNUSED))
            else:
                why = self._misfits(attempt, node, placements)
            if why:
                rejections.append(Rejection(node, why))
                continue
            fitting.append(node)
            if len(fitting) >= enough:
                break
        if order:  # after a complete search, advance by one node, so that equal nodes take turns
            self._start = (self._start + (looked_at if looked_at < len(order) else 1)) % len(order)
        if not fitting:
            return None, rejections
        nodes: Sequence[NodeView] = fitting
        if self._devices is not None and attempt.devices is not NO_DEVICES:
            nodes = self._devices.preferred(attempt.devices, fitting)
        siblings = {} if demand.terms_about_pods.spread else placements.siblings(demand.owner)
        return best(demand, nodes, usages, siblings, _preferences(attempt, nodes)), ()

    def _first_choices(self, attempt: SchedulingAttempt) -> Iterable[str]:
        """Yield the node for which the pod's claims were bound, and the node that the pod is nominated to."""
        if attempt.key in self._prepared:
            yield self._prepared[attempt.key]
        nomination = self._nominations.get(attempt.key, attempt.entry.uid)
        if nomination is not None:
            yield nomination.node

    def _misfits(self, attempt: SchedulingAttempt, node: NodeView, placements: Placements) -> Sequence[str]:
        usage = placements.usages.get(node.name, UNUSED)
        usage = self._nominations.usage(node.name, usage, attempt.key, attempt.demand)
        return self._filters.misfits(attempt, node, usage)

    def _bind(self, attempt: SchedulingAttempt, placement: Placement, placements: Placements) -> Step[None]:
        key, pod = attempt.key, attempt.pod
        namespace, name = split_key(key)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": placement.uid},
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
        if self._devices is not None and attempt.devices is not NO_DEVICES:
            yield from self._devices.unreserve_all(pod)

    def _give_up(
        self, attempt: SchedulingAttempt, placements: Placements, message: str, rejections: Sequence[Rejection]
    ) -> Step[RequeueAfter]:
        """Release idle claims or preempt pods if that may help the pod, and record why it is unschedulable."""
        if self._preemptor is None or not self._order:
            return (yield from self._wait(attempt, placements, message, PreemptionPlan()))
        about_claims = NO_CLAIMS
        if self._devices is not None:
            about_claims = yield from self._devices.after_failure(attempt.devices, attempt.pod)
        plan = self._preemptor.plan(
            attempt, rejections, self._filters, placements, self._nominations, nodes=len(self._order)
        )
        if plan.node:
            self._nominations.put(attempt.key, nomination_of(attempt, plan.node))
        else:
            message = f"{message} {about_claims}, {plan.message}"
        later = yield from self._wait(attempt, placements, message, plan)
        yield from self._preemptor.carry_out(attempt, plan, self._nominations)
        return later

    def _wait(
        self,
        attempt: SchedulingAttempt,
        placements: Placements,
        message: str,
        plan: PreemptionPlan,
        *,
        reason: str = "Unschedulable",
    ) -> Step[RequeueAfter]:
        """Record why the pod is unschedulable, and retry later. plan: determines status.nominatedNodeName."""
        key, pod, demand = attempt.key, attempt.pod, attempt.demand
        wait = self._waits.get(key)
        if wait is None or wait.demand != demand:
            wait = self._waits[key] = _Wait(demand)
        wait.attempts, wait.looks = wait.attempts + 1, 0
        wait.changes = self._changes(pod, placements)
        backoff = wait.backoff(wait.attempts)
        wait.until = self._clock.monotonic() + backoff
        yield record(PODS, pod, "Warning", "FailedScheduling", message)
        status = pod.get("status") or {}
        condition = changed_condition(
            status.get("conditions"), "PodScheduled", False, reason, message, now=self._clock.now()
        )
        changes: Object = {} if condition is None else {"conditions": [condition]}
        if not plan.keeps_nomination:
            if not plan.node:
                self._nominations.remove(key)
            if (status.get("nominatedNodeName") or "") != plan.node:
                changes["nominatedNodeName"] = plan.node or None
        if changes:
            yield from must(merge_status(PODS, pod, changes), but=(NotFound, Conflict))
        return RequeueAfter(backoff)


def _preferences(attempt: SchedulingAttempt, nodes: Sequence[NodeView]) -> Sequence[float]:
    """Return the scores of nodes by preferences of the pod and of other pods; empty if there are none."""
    if len(nodes) == 1:
        return ()
    found = [preferences(attempt.demand, nodes)]
    if attempt.neighbours is not None:
        about_pods = (attempt.neighbours.affinity_scores(nodes), attempt.neighbours.spread_scores(nodes))
        found += [None if scores is None else [PODS_WEIGHT * score for score in scores] for scores in about_pods]
    given = [scores for scores in found if scores is not None]
    return [sum(of_node) for of_node in zip(*given, strict=True)]


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


def scheduler_spec(
    *, volumes: bool = True, devices: bool = False, taint_rules: Resource | None = None
) -> ControllerSpec:
    """Return the spec of the hollow scheduler.

    volumes: let pods wait for their claims, and select nodes for claims that wait for a pod. Otherwise claims and
        volumes are not watched.
    devices: allocate ResourceClaims of pods. Otherwise claims, slices and classes are not watched.
    taint_rules: the resource of DeviceTaintRules, if they taint the allocated devices.
    """
    return ControllerSpec(
        name="hollow-scheduler-controller",
        never_blocks=True,
        client=CLIENT,
        component=SCHEDULER_NAME,
        queues=(
            Queue(
                watches=(
                    *scheduler_watches(),
                    *(volume_watches() if volumes else ()),
                    *(device_watches(taint_rules) if devices else ()),
                ),
                concurrency=MANY,
                terminal=(),
            ),
        ),
        reads=(POD_DISRUPTION_BUDGETS, NAMESPACES),
        indexes=(
            PODS_BY_NODE,
            *((PODS_BY_CLAIM, VOLUMES_BY_CLAIM, UNCLAIMED_VOLUMES, ATTACHMENTS_BY_NODE) if volumes else ()),
            *((PODS_BY_DEVICE_CLAIM, CLAIMS_BY_DEVICE) if devices else ()),
        ),
        facts=(VOLUME_FACTS, CLAIM_FACTS) if volumes else (),
        build=lambda context: HollowScheduler(
            tables=context.tables,
            clock=context.clock,
            volumes=PodVolumes(context.tables) if volumes else None,
            devices=PodDevices(context.tables, context.clock, rules=taint_rules) if devices else None,
            preemptor=Preemptor(context.tables, context.clock),
        ),
    )
