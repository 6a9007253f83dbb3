"""daemonset-controller: keeps a pod of each DaemonSet on every node that it fits.

In: changes of DaemonSets, their pods and ControllerRevisions; nodes whose labels or taints change. Out: pods created
and deleted (250 each a sync at most), ControllerRevisions, adoption and release patches, the status subresource, events
on the DaemonSet. The scheduler binds the pods: each requires its node by affinity.

Source: kubernetes v1.36 pkg/controller/daemon/daemon_controller.go. Differences:
- No expectations and no consistency store: listers show our own writes.
- Pod names are chosen here, from the DaemonSet's version and the node, so that a creation is not made twice.
- The status counts what the sync has just created and deleted, where upstream counts what the watch has shown.
- While the outcome of a creation is unknown the status is not written; it is sent again under the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcm.actors.controllers.shared.ownership import claim
from kcm.actors.controllers.shared.pod_control import Creations, create_pods, delete_pods, fetch_existing
from kcm.actors.controllers.shared.replica_status import seconds_to_next_availability
from kcm.actors.controllers.shared.status import write_status
from kcm.actors.controllers.shared.unknown_outcomes import RETRY_DELAY, is_current, raise_if_unknown
from kcm.actors.controllers.workloads.daemonset.failed_pods import Attempt, FailedPods
from kcm.actors.controllers.workloads.daemonset.fields import DaemonSpec, daemon_spec, selector_of
from kcm.actors.controllers.workloads.daemonset.history import History, clean_up, ensure_history, surplus_revisions
from kcm.actors.controllers.workloads.daemonset.names import PodNames
from kcm.actors.controllers.workloads.daemonset.placement import Placement, Verdict, placement_of
from kcm.actors.controllers.workloads.daemonset.pod_plan import NodePods, Plan, by_node, plan_pods
from kcm.actors.controllers.workloads.daemonset.pods import DaemonPodForm
from kcm.actors.controllers.workloads.daemonset.rolling_update import plan_update
from kcm.actors.controllers.workloads.daemonset.status import count_nodes, next_status
from kcm.actors.controllers.workloads.daemonset.watches import NodeChange
from kcm.actors.reconciliation import Enqueue, Reconciliation, RequeueAfter, Step, record
from kcm.protocols.messages.outcomes import CommandError
from kcm.protocols.objects import Key, Object, is_deleting, key_of, metadata, namespace_of, uid_of
from kcm.protocols.resources import CONTROLLER_REVISIONS, DAEMONSETS, NODES, PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE = "daemonset"
BURST = 250  # pods created, and pods deleted, in one sync
FOREIGN_WAIT = 5.0  # seconds until a revision that another DaemonSet left behind is looked at again
SELECTS_ALL = "This daemon set is selecting all pods. A non-empty selector is required."


class _Acted(NamedTuple):
    """acted: pods were created or deleted, or that was tried. failure: what the sync raises once the status is written.
    wait: seconds to requeue after.
    """

    acted: bool = False
    failure: CommandError | None = None
    wait: float | None = None


class DaemonSetReconciler:
    """Key: "namespace/name" of a DaemonSet; NodeChange for `node_changed`."""

    def __init__(
        self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, comparing: bool = False, burst: int = BURST
    ) -> None:
        """comparing: tolerations may compare numbers."""
        self._sets, self._revisions = tables[DAEMONSETS], tables[CONTROLLER_REVISIONS]
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._clock, self._log, self._comparing, self._burst = clock, log, comparing, burst
        self._failed = FailedPods()
        self._placements: dict[Key, tuple[str, Placement]] = {}  # of DaemonSets that were synced: uid, where pods run
        self._names: dict[Key, PodNames] = {}

    def reconcile(self, key: Key) -> Reconciliation:
        """Raises ValueError on a malformed DaemonSet, CommandError on a write that did not succeed."""
        entry = self._sets.entry(key)
        known = self._placements.get(key)
        if known is not None and (entry is None or entry.uid != known[0]):
            self._failed.forget(known[0])
            self._names.pop(key, None)
            del self._placements[key]
        if entry is None:
            return None
        daemon_set = self._sets.object_of(entry)
        if is_deleting(daemon_set):
            return None
        if selector_of(daemon_set).empty:
            yield record(DAEMONSETS, daemon_set, "Warning", "SelectingAll", SELECTS_ALL)
            return None
        spec = daemon_spec(daemon_set)
        placement = placement_of(spec.template, comparing=self._comparing)
        self._placements[key] = entry.uid, placement
        pods = yield from self._claim(daemon_set, spec)
        history = yield from ensure_history(daemon_set, spec, revisions=self._revisions, pods=pods)
        if not is_current(self._sets, entry):
            return (yield from self.reconcile(key))
        return (yield from self._sync(daemon_set, spec, placement, history, pods))

    def node_changed(self, change: NodeChange) -> Reconciliation:
        """Enqueue the DaemonSets whose pods belong on this node now and did not before, or the other way round; and
        those that have a pod from before on a node that is back, where it may not stay.

        One that was not synced yet has its own key to come.
        """
        entry = self._nodes.entry(change.node)
        after = b"" if entry is None else entry.facts.placement
        is_new = entry is not None and not change.before
        differs: dict[Placement, bool] = {}
        for key, (uid, placement) in list(self._placements.items()):
            if placement not in differs:
                differs[placement] = placement.verdict(change.before) != placement.verdict(after)
            if differs[placement] or (is_new and self._has_pod_on(change.node, uid)):
                yield Enqueue(QUEUE, key)
        return None

    def _has_pod_on(self, node: str, uid: str) -> bool:
        return any(pod.facts.target == node for pod in self._pods.entries_owned_by(uid))

    def _claim(self, daemon_set: Object, spec: DaemonSpec) -> Step[list[Entry]]:
        namespace, uid = namespace_of(daemon_set), uid_of(daemon_set)
        doubt = self._pods.first_unreadable(namespace, owner=uid)
        if doubt is not None:  # it may be the one that seems to be missing somewhere
            raise UnreadableError(PODS, doubt)
        candidates = self._pods.entries_owned_by(uid) + self._pods.orphan_entries(namespace)
        return (
            yield from claim(
                candidates, lister=self._pods, owner=daemon_set, owners=DAEMONSETS, matches=spec.selector.matches
            )
        )

    def _sync(
        self, daemon_set: Object, spec: DaemonSpec, placement: Placement, history: History, pods: Sequence[Entry]
    ) -> Reconciliation:
        nodes = placement.verdicts(self._nodes.entries())
        placed = by_node(pods)
        # One time for all decisions and for the status: a pod that becomes available while something is written would
        # else be counted as available, so that nothing syncs the set again, though an update still waits for it.
        now = self._clock.now()
        plan = self._plan(daemon_set, spec, nodes, placed, history.hash, now)
        wait = plan.wait
        if plan.is_empty and spec.rolling is not None:
            plan = plan_update(nodes, placed, spec=spec, rolling=spec.rolling, hash=history.hash, now=now)
        acted = yield from self._act(daemon_set, spec, plan, history.hash)
        if acted.acted:
            pods = [pod for pod in self._pods.entries_owned_by(uid_of(daemon_set)) if spec.selects(pod.facts)]
            placed = by_node(pods)
        failure = acted.failure
        if failure is None:
            try:
                yield from clean_up(surplus_revisions(history.old, pods, limit=spec.history_limit))
            except CommandError as err:
                failure = err
        counts = count_nodes(nodes, placed, spec=spec, hash=history.hash, now=now)
        status = next_status(spec.status, counts, generation=metadata(daemon_set).get("generation") or 0)
        if status is not None:
            yield from write_status(DAEMONSETS, daemon_set, status)
        if failure is not None:
            raise failure
        waits = [wait, acted.wait, None if history.is_own else FOREIGN_WAIT]
        waits.append(self._next_availability(spec, pods, counted=now))
        seconds = [one for one in waits if one is not None]
        return RequeueAfter(max(0.0, min(seconds))) if seconds else None

    def _plan(
        self, daemon_set: Object, spec: DaemonSpec, nodes: Mapping[str, Verdict], pods: NodePods, hash: str, now: float
    ) -> Plan:
        def seconds_left(node: str) -> float:
            return self._failed.seconds_left(_attempt(daemon_set, spec, node), self._clock.monotonic())

        unknown = {one.key for one in self._nodes.unreadable()}
        return plan_pods(nodes, pods, unknown=unknown, spec=spec, hash=hash, now=now, seconds_left=seconds_left)

    def _act(self, daemon_set: Object, spec: DaemonSpec, plan: Plan, hash: str) -> Step[_Acted]:
        """Create and delete what is planned, as much as one sync may. Source: syncNodes."""
        if plan.is_empty:
            return _Acted()
        for type, reason, message in plan.events:
            yield record(DAEMONSETS, daemon_set, type, reason, message)
        for node in plan.failed:
            self._failed.deleting(_attempt(daemon_set, spec, node), self._clock.monotonic())
        made = yield from self._create(daemon_set, spec, plan.create[: self._burst], hash)
        raise_if_unknown(made)
        gone = yield from delete_pods(
            plan.delete[: self._burst], owner=daemon_set, owners=DAEMONSETS, further_grounds=(NODES,)
        )
        if gone.deleted:
            self._log.info("pods deleted", key=key_of(daemon_set), count=len(gone.deleted))
        return _Acted(
            acted=True,
            failure=made.failure or gone.failure,
            wait=RETRY_DELAY if made.existing or gone.conflicting else None,
        )

    def _create(self, daemon_set: Object, spec: DaemonSpec, nodes: Sequence[str], hash: str) -> Step[Creations]:
        if not nodes:
            return Creations()
        key = key_of(daemon_set)
        names = self._names.setdefault(key, PodNames())
        form = DaemonPodForm(spec, hash=hash, owner=daemon_set)
        form.nodes = names.choose(daemon_set, nodes, taken=lambda pod: self._pods.entry(pod) is not None)
        creations = yield from create_pods(form, list(form.nodes), owner=daemon_set, owners=DAEMONSETS)
        if creations.created:
            self._log.info("pods created", key=key, count=len(creations.created))
        resolved = yield from fetch_existing(creations)
        names.record(form.nodes, creations, resolved)
        return creations

    def _next_availability(self, spec: DaemonSpec, pods: Sequence[Entry], *, counted: float) -> float | None:
        """Return the seconds until the next ready pod is available, also one that surges and is not counted yet."""
        return seconds_to_next_availability(
            [pod.facts for pod in pods],
            min_ready_seconds=spec.min_ready_seconds,
            counted=counted,
            now=self._clock.now(),
        )


def _attempt(daemon_set: Object, spec: DaemonSpec, node: str) -> Attempt:
    return Attempt(uid_of(daemon_set), spec.status.get("observedGeneration") or 0, node)
