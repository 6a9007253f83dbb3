"""Small scheduler: binds pods to nodes. Key: pod.

It considers requests, nodeSelector, node affinity, taints, unschedulable nodes, host ports, affinity between pods,
topology spread constraints, volumes and devices. It spreads the pods of one owner over zones and nodes, and prefers the
node with more free resources. If a pod fits no node, pods of lower priority are preempted. A pod that cannot be
scheduled is retried after a change of nodes or when pods end, but not before its backoff has passed (1 to 10 s). Of the
pods that are to be tried, the one of the highest priority is the first, and among equals the one that became so first.

Source: kubernetes v1.36 pkg/scheduler/{schedule_one.go,eventhandlers.go}, pkg/scheduler/backend/queue.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from kcm.actors.hollow.scheduler.demand import Demand, demand_of
from kcm.actors.hollow.scheduler.devices.claim_facts import MEMBERS, has_claims, requires_devices
from kcm.actors.hollow.scheduler.devices.claim_writer import NO_CLAIMS
from kcm.actors.hollow.scheduler.devices.claims import PodDevices
from kcm.actors.hollow.scheduler.devices.requested_devices import NO_DEVICES
from kcm.actors.hollow.scheduler.devices.requests import AllocationError
from kcm.actors.hollow.scheduler.filters import Filters, Rejection, SchedulingAttempt, counted
from kcm.actors.hollow.scheduler.neighbours import Neighbours, is_concerned
from kcm.actors.hollow.scheduler.node_fit import NodeView, failure_message
from kcm.actors.hollow.scheduler.placements import Nomination, Nominations, Placement, Placements
from kcm.actors.hollow.scheduler.preemptor import PreemptionPlan, Preemptor, nomination_of
from kcm.actors.hollow.scheduler.search import NodeSearch
from kcm.actors.hollow.scheduler.snapshot import NodeSnapshot
from kcm.actors.hollow.scheduler.unschedulable import MOST_BACKOFF, UnschedulablePods
from kcm.actors.hollow.scheduler.volumes import PodVolumes, UnresolvableError
from kcm.actors.reconciliation import Because, Reconciliation, RequeueAfter, Step, merge_status, must, record
from kcm.protocols.conditions import changed_condition
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.objects import Key, Object, encode_object, labels_of, make_key, namespace_of, split_key
from kcm.protocols.pods import PodFacts, is_terminal
from kcm.protocols.resource_claims import pod_group_name
from kcm.protocols.resources import NAMESPACES, NODES, PODS
from kcm.protocols.volumes import claims_of
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

SCHEDULER_NAME = "default-scheduler"


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
        self._pods = tables[PODS]
        self._volumes, self._devices, self._preemptor = volumes, devices, preemptor
        self._filters, self._nominations = Filters(volumes, devices), Nominations()
        self._placements: Placements | None = None
        self._snapshot = NodeSnapshot(tables[NODES])
        self._search = NodeSearch(self._snapshot, self._filters, self._nominations, devices)
        self._unschedulable = UnschedulablePods()
        self._prepared: dict[Key, str] = {}  # pods whose claims are being bound, with the chosen node

    def reconcile(self, key: Key) -> Reconciliation:
        placements = self._placements
        if placements is None:
            placements = self._placements = self._all_placements()
        entry = self._pods.entry(key)
        self._account(placements, key, entry)
        if entry is None or not _is_unassigned(entry) or placements.get(key) is not None:
            self._unschedulable.forget(key)
            self._prepared.pop(key, None)
            self._nominations.remove(key)
            return None
        pod = self._pods.object_of(entry)
        if not _is_ours(pod):
            return None
        if self._devices is not None and has_claims(pod) and self._devices.is_gated(pod):
            yield Because("waits until its ResourceClaims exist")
            return None  # a change of the pod or of its claims enqueues it
        demand = placements.shared(demand_of(pod, controller=entry.controller))
        self._snapshot.refresh()
        later = self._too_early(key, pod, demand, placements)
        if later is not None:
            yield Because("waits: nothing has changed since it was found unschedulable")
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
            message = f"{unusable_message(len(self._snapshot), err)} not found"
            return (yield from self._wait(attempt, placements, message, PreemptionPlan(keeps_nomination=True)))
        try:
            if self._devices is not None and requires_devices(pod):
                attempt = attempt._replace(devices=self._devices.requested(pod))
            chosen, rejections = self._search.choose(attempt, placements, self._first_choices(attempt))
        except UnresolvableError as err:
            return (yield from self._give_up(attempt, placements, unusable_message(len(self._snapshot), err), ()))
        except AllocationError as err:
            message = f'running "DynamicResources" filter plugin: {err}'
            return (yield from self._wait(attempt, placements, message, PreemptionPlan(), reason="SchedulerError"))
        if chosen is None:
            message = failure_message(len(self._snapshot), counted(rejections))
            return (yield from self._give_up(attempt, placements, message, rejections))
        if not (yield from self._prepare(attempt, chosen)):
            self._prepared[key] = chosen.name
            yield Because(f"node {chosen.name} is chosen: waits until its claims are bound")
            return RequeueAfter(MOST_BACKOFF)  # its claims are being bound, and their changes enqueue the pod
        yield from self._bind(attempt, Placement(entry.uid, chosen.name, demand, assumed=True), placements)
        return None

    def _neighbours(self, pod: Object, demand: Demand, placements: Placements) -> Neighbours:
        def facts(key: Key) -> PodFacts | None:
            entry = self._pods.entry(key)
            return None if entry is None else entry.facts

        def namespace_labels(name: str) -> Mapping[str, str]:
            namespace = self._tables[NAMESPACES].get(name)
            return {} if namespace is None else labels_of(namespace)

        return Neighbours(
            pod,
            demand,
            placements,
            facts=facts,
            nodes=self._snapshot.view,
            all_nodes=self._snapshot.order,
            namespace_labels=namespace_labels,
        )

    def _prepare(self, attempt: SchedulingAttempt, node: NodeView) -> Step[bool]:
        """Bind the claims of the pod for this node, and return whether all of them are bound."""
        if self._volumes is not None and not (yield from self._volumes.prepare(attempt.claimed, node)):
            return False
        if self._devices is None or attempt.devices is NO_DEVICES:
            return True
        return (yield from self._devices.writer.prepare(attempt.devices, attempt.pod, node))

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

    def _changes(self, pod: Object, placements: Placements) -> int:
        """Return a number that rises with every change that may help an unschedulable pod."""
        changes = self._snapshot.changes + placements.releases
        about_pods = (pod["spec"].get("affinity") or {}).keys() & {"podAffinity", "podAntiAffinity"}
        if about_pods or pod["spec"].get("topologySpreadConstraints"):
            changes += self._pods.version
        return changes + self._devices.version if self._devices is not None and requires_devices(pod) else changes

    def _too_early(self, key: Key, pod: Object, demand: Demand, placements: Placements) -> RequeueAfter | None:
        if key not in self._unschedulable:
            return None
        return self._unschedulable.too_early(
            key,
            demand,
            changes=self._changes(pod, placements),
            has_volumes=self._volumes is not None and any(claims_of(pod)),
            now=self._clock.monotonic(),
        )

    def _first_choices(self, attempt: SchedulingAttempt) -> Iterable[str]:
        """Yield the node for which the pod's claims were bound, and the node that the pod is nominated to."""
        if attempt.key in self._prepared:
            yield self._prepared[attempt.key]
        nomination = self._nominations.get(attempt.key, attempt.entry.uid)
        if nomination is not None:
            yield nomination.node

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
        yield Because(f"binds it to node {placement.node}")
        outcome = yield command
        if isinstance(outcome, Done):
            yield record(PODS, pod, "Normal", "Scheduled", f"Successfully assigned {key} to {placement.node}")
            return
        placements.remove(key)
        # The pod was deleted, bound by another program, or replaced: its event enqueues it.
        if not isinstance(outcome, NotFound | Conflict):
            raise CommandError(command, outcome)
        if self._devices is not None and attempt.devices is not NO_DEVICES:
            yield from self._devices.writer.unreserve_all(pod)

    def _give_up(
        self, attempt: SchedulingAttempt, placements: Placements, message: str, rejections: Sequence[Rejection]
    ) -> Step[RequeueAfter]:
        """Release idle claims or preempt pods if that may help the pod, and record why it is unschedulable."""
        if self._preemptor is None or not self._snapshot.order:
            return (yield from self._wait(attempt, placements, message, PreemptionPlan()))
        about_claims, pod = NO_CLAIMS, attempt.pod
        if self._devices is not None:
            about_claims = yield from self._devices.writer.after_failure(
                attempt.devices, attempt.pod, is_group_scheduled=lambda: self._has_scheduled_group(pod, placements)
            )
        plan = self._preemptor.plan(
            attempt, rejections, self._filters, placements, self._nominations, nodes=len(self._snapshot)
        )
        if plan.node:
            self._nominations.put(attempt.key, nomination_of(attempt, plan.node))
        else:
            message = f"{message} {about_claims}, {plan.message}"
        later = yield from self._wait(attempt, placements, message, plan)
        yield from self._preemptor.carry_out(attempt, plan, self._nominations)
        return later

    def _has_scheduled_group(self, pod: Object, placements: Placements) -> bool:
        members = self._pods.indexed_entries(MEMBERS, make_key(namespace_of(pod), pod_group_name(pod)))
        return any(member.facts.node or placements.get(member.key) is not None for member in members)

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
        changes = self._changes(pod, placements)
        backoff = self._unschedulable.failed(key, demand, changes=changes, now=self._clock.monotonic())
        yield Because(f"{message}; tries again in {backoff:.0f} s or after a change")
        yield record(PODS, pod, "Warning", "FailedScheduling", message)
        status = pod.get("status") or {}
        condition = changed_condition(
            status.get("conditions"), "PodScheduled", False, reason, message, now=self._clock.now()
        )
        written: Object = {} if condition is None else {"conditions": [condition]}
        if not plan.keeps_nomination:
            if not plan.node:
                self._nominations.remove(key)
            if (status.get("nominatedNodeName") or "") != plan.node:
                written["nominatedNodeName"] = plan.node or None
        if written:
            yield from must(merge_status(PODS, pod, written), but=(NotFound, Conflict))
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
