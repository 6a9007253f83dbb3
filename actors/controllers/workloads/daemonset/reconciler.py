"""DaemonSet controller: runs a pod of each DaemonSet on every eligible node.

Reads DaemonSets, their pods and ControllerRevisions, and nodes. Creates and deletes pods (at most 250 each per sync),
writes ControllerRevisions, adoption and release patches and the status subresource, and records events on the
DaemonSet. The scheduler binds the pods: each requires its node by node affinity.

Source: kubernetes v1.36 pkg/controller/daemon/daemon_controller.go. Differences:
- No expectations and no consistency store: listers show our own writes.
- Pod names are derived from the DaemonSet's resourceVersion and the node, and a creation with unknown outcome is
  retried under the same name (actors/controllers/shared/unknown_outcomes.py).
- The status includes the pods that the sync has just created and deleted; upstream counts the pods in its cache.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcm.actors.controllers.shared.ownership import claim
from kcm.actors.controllers.shared.pod_control import Creations, create_pods, delete_pods, fetch_existing
from kcm.actors.controllers.shared.replica_status import seconds_to_next_availability
from kcm.actors.controllers.shared.status import write_status
from kcm.actors.controllers.shared.unknown_outcomes import RETRY_DELAY, is_current, raise_if_unknown
from kcm.actors.controllers.workloads.daemonset.failed_pods import FailedPodKey, FailedPodsBackoff
from kcm.actors.controllers.workloads.daemonset.history import (
    RevisionHistory,
    clean_up,
    ensure_history,
    surplus_revisions,
)
from kcm.actors.controllers.workloads.daemonset.names import PodNames
from kcm.actors.controllers.workloads.daemonset.objects import DaemonSet, parse_daemon_set, selector_of
from kcm.actors.controllers.workloads.daemonset.placement import NodeVerdict, PodPlacement, placement_of
from kcm.actors.controllers.workloads.daemonset.pod_plan import DaemonSetPlan, NodePods, by_node, plan_pods
from kcm.actors.controllers.workloads.daemonset.pods import DaemonPodForm
from kcm.actors.controllers.workloads.daemonset.rolling_update import plan_update
from kcm.actors.controllers.workloads.daemonset.status import count_nodes, next_status
from kcm.actors.controllers.workloads.daemonset.watches import NodeChange
from kcm.actors.reconciliation import Because, Enqueue, Reconciliation, RequeueAfter, Step, record
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.objects import Key, is_deleting
from kcm.protocols.resources import CONTROLLER_REVISIONS, DAEMONSETS, NODES, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE = "daemonset"
BURST = 250  # pods created, and pods deleted, in one sync
FOREIGN_WAIT = 5.0  # seconds until the next sync if a deleted DaemonSet's revision has the current revision's name
SELECTS_ALL = "This daemon set is selecting all pods. A non-empty selector is required."


class _SyncedPods(NamedTuple):
    """Result of creating and deleting the pods of a plan."""

    attempted: bool = False  # whether any pod was to be created or deleted
    failure: CommandError | None = None  # for the sync to raise once the status is written
    wait: float | None = None  # seconds to requeue after


class DaemonSetReconciler:
    """Reconciles DaemonSets. `reconcile` takes "namespace/name" of a DaemonSet, `node_changed` takes a NodeChange."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        comparing: bool = False,  # whether tolerations may use the operators Lt and Gt
        burst: int = BURST,
    ) -> None:
        self._sets, self._revisions = tables[DAEMONSETS], tables[CONTROLLER_REVISIONS]
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._clock, self._log, self._comparing, self._burst = clock, log, comparing, burst
        self._failed = FailedPodsBackoff()
        self._placements: dict[
            Key, tuple[str, PodPlacement]
        ] = {}  # uid and placement of each DaemonSet that was synced
        self._names: dict[Key, PodNames] = {}

    def reconcile(self, key: Key) -> Reconciliation:
        """Sync a DaemonSet. Source: syncDaemonSet.

        Raises ValueError if the DaemonSet is malformed, and CommandError if a write fails.
        """
        entry = self._sets.entry(key)
        known = self._placements.get(key)
        if known is not None and (entry is None or entry.uid != known[0]):
            self._failed.forget(known[0])
            self._names.pop(key, None)
            del self._placements[key]
        if entry is None:
            return None
        obj = self._sets.object_of(entry)
        if is_deleting(obj):
            yield Because("is being deleted: creates and deletes no pods")
            return None
        if selector_of(obj).empty:
            yield Because("its selector is empty and selects all pods: creates none")
            yield record(DAEMONSETS, obj, "Warning", "SelectingAll", SELECTS_ALL)
            return None
        daemon_set = parse_daemon_set(obj)
        placement = placement_of(daemon_set.template, comparing=self._comparing)
        self._placements[key] = entry.uid, placement
        pods = yield from self._claim(daemon_set)
        history = yield from ensure_history(daemon_set, revisions=self._revisions, pods=pods)
        if not is_current(self._sets, entry):
            return (yield from self.reconcile(key))
        return (yield from self._sync(daemon_set, placement, history, pods))

    def node_changed(self, change: NodeChange) -> Reconciliation:
        """Enqueue the DaemonSets for which the changed node became eligible or ineligible. Source: syncNodeUpdate.

        If a node of the same name was created again, also enqueue the DaemonSets that still have a pod on it, because
        that pod may have to be deleted. A DaemonSet that was never synced is skipped: it is still in the queue.
        """
        entry = self._nodes.entry(change.node)
        after = b"" if entry is None else entry.facts.placement
        is_new = entry is not None and not change.before
        differs: dict[PodPlacement, bool] = {}
        for key, (uid, placement) in list(self._placements.items()):
            if placement not in differs:
                differs[placement] = placement.verdict(change.before) != placement.verdict(after)
            if differs[placement] or (is_new and self._has_pod_on(change.node, uid)):
                yield Enqueue(QUEUE, key)
        return None

    def _has_pod_on(self, node: str, uid: str) -> bool:
        return any(pod.facts.target == node for pod in self._pods.entries_owned_by(uid))

    def _claim(self, daemon_set: DaemonSet) -> Step[list[Entry]]:
        namespace, uid = daemon_set.namespace, daemon_set.uid
        unreadable = self._pods.first_unreadable(namespace, owner=uid)
        if unreadable is not None:  # the unreadable pod may be the one that seems to be missing on a node
            raise UnreadableError(PODS, unreadable)
        candidates = self._pods.entries_owned_by(uid) + self._pods.orphan_entries(namespace)
        return (
            yield from claim(
                candidates,
                lister=self._pods,
                owner=daemon_set.obj,
                owner_resource=DAEMONSETS,
                matches=daemon_set.selector.matches,
            )
        )

    def _sync(
        self, daemon_set: DaemonSet, placement: PodPlacement, history: RevisionHistory, pods: Sequence[Entry]
    ) -> Reconciliation:
        """Create and delete pods, advance a rolling update, delete surplus revisions, and write the status.

        Source: updateDaemonSet.
        """
        nodes = placement.verdicts(self._nodes.entries())
        placed = by_node(pods)
        # One time for all decisions and for the status. Otherwise a pod that becomes available during a write would be
        # counted as available in the status, and nothing would sync the DaemonSet again, although an update waits for
        # that pod.
        now = self._clock.now()
        plan = self._plan(daemon_set, nodes, placed, history.hash, now)
        wait, occasion = plan.wait, ""
        if plan.is_empty and daemon_set.rolling is not None:
            occasion = "rolling update: "
            plan = plan_update(
                nodes, placed, daemon_set=daemon_set, rolling=daemon_set.rolling, hash=history.hash, now=now
            )
        synced = yield from self._carry_out(daemon_set, plan, history.hash)
        if synced.attempted:
            pods = [pod for pod in self._pods.entries_owned_by(daemon_set.uid) if daemon_set.selects(pod.facts)]
            placed = by_node(pods)
        failure = synced.failure
        if failure is None:
            try:
                yield from clean_up(surplus_revisions(history.old, pods, limit=daemon_set.history_limit))
            except CommandError as err:
                failure = err
        counts = count_nodes(nodes, placed, daemon_set=daemon_set, hash=history.hash, now=now)
        if synced.attempted:
            yield Because(
                f"{occasion}{counts.desired} of {len(nodes)} nodes are eligible; "
                f"creates {min(len(plan.create), self._burst)} pods and deletes {min(len(plan.delete), self._burst)}"
            )
        elif counts.available != counts.desired or counts.updated != counts.desired:
            held = "" if wait is None else f"; deletes the next failed pod in {wait:.0f} s"
            yield Because(
                f"{counts.available} of {counts.desired} eligible nodes have an available pod, "
                f"{counts.updated} an updated one{held}"
            )
        status = next_status(daemon_set, counts)
        if status is not None:
            yield from write_status(DAEMONSETS, daemon_set.obj, status)
        if failure is not None:
            raise failure
        delays = [wait, synced.wait, None if history.is_own else FOREIGN_WAIT]
        delays.append(self._next_availability(daemon_set, pods, counted=now))
        known_delays = [delay for delay in delays if delay is not None]
        return RequeueAfter(max(0.0, min(known_delays))) if known_delays else None

    def _plan(
        self, daemon_set: DaemonSet, nodes: Mapping[str, NodeVerdict], pods: NodePods, hash: str, now: float
    ) -> DaemonSetPlan:
        def seconds_left(node: str) -> float:
            return self._failed.seconds_left(_failed_pod_key(daemon_set, node), self._clock.monotonic())

        return plan_pods(
            nodes,
            pods,
            unreadable={node.key for node in self._nodes.unreadable()},
            daemon_set=daemon_set,
            hash=hash,
            now=now,
            seconds_left=seconds_left,
        )

    def _carry_out(self, daemon_set: DaemonSet, plan: DaemonSetPlan, hash: str) -> Step[_SyncedPods]:
        """Create and delete the planned pods, at most `burst` of each. Source: syncNodes."""
        if plan.is_empty:
            return _SyncedPods()
        for type, reason, message in plan.events:
            yield record(DAEMONSETS, daemon_set.obj, type, reason, message)
        for node in plan.failed:
            self._failed.record_deletion(_failed_pod_key(daemon_set, node), self._clock.monotonic())
        creations = yield from self._create(daemon_set, plan.create[: self._burst], hash)
        raise_if_unknown(creations)
        deletions = yield from delete_pods(
            plan.delete[: self._burst], owner=daemon_set.obj, owner_resource=DAEMONSETS, further_grounds=(NODES,)
        )
        if deletions.deleted:
            self._log.info("pods deleted", key=daemon_set.key, count=len(deletions.deleted))
        return _SyncedPods(
            attempted=True,
            failure=creations.failure or deletions.failure,
            wait=RETRY_DELAY if creations.existing or deletions.conflicting else None,
        )

    def _create(self, daemon_set: DaemonSet, nodes: Sequence[str], hash: str) -> Step[Creations]:
        if not nodes:
            return Creations()
        names = self._names.setdefault(daemon_set.key, PodNames())
        form = DaemonPodForm(daemon_set, hash=hash)
        form.nodes = names.choose(daemon_set.obj, nodes, taken=lambda pod: self._pods.entry(pod) is not None)
        creations = yield from create_pods(form, list(form.nodes), owner=daemon_set.obj, owner_resource=DAEMONSETS)
        if creations.created:
            self._log.info("pods created", key=daemon_set.key, count=len(creations.created))
        resolved = yield from fetch_existing(creations)
        names.record(form.nodes, creations, resolved)
        return creations

    def _next_availability(self, daemon_set: DaemonSet, pods: Sequence[Entry], *, counted: float) -> float | None:
        """Return the seconds until the next ready pod becomes available, None if there is no such pod.

        Unlike the status, this includes surge pods. counted: time at which the status was computed, in Unix seconds.
        """
        return seconds_to_next_availability(
            [pod.facts for pod in pods],
            min_ready_seconds=daemon_set.min_ready_seconds,
            counted=counted,
            now=self._clock.now(),
        )


def _failed_pod_key(daemon_set: DaemonSet, node: str) -> FailedPodKey:
    return FailedPodKey(daemon_set.uid, daemon_set.observed_generation, node)
