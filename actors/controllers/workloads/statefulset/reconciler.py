"""statefulset-controller: keeps pods that have an identity: a name, a place in an order, and claims of their own.

In: changes of StatefulSets and pods, deletions of claims. Out: pods created, deleted and given their identity; claims
created and given owners; ControllerRevisions; adoption and release patches; the status subresource; events on the
StatefulSet.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set.go, stateful_set_control.go. Differences:
- No consistency store: listers show our own writes.
- The deletion of a claim wakes the set, which may wait for it, or have to create it again.
- A pod that ended right after its creation is replaced with backoff (patience.py).
- Policy Parallel creates at most 500 pods in one sync, and the status says how far it is before the next.
- While one of its pods cannot be read, a set creates and deletes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kcm.actors.controllers.shared.ownership import claim
from kcm.actors.controllers.shared.replica_status import seconds_to_next_availability
from kcm.actors.controllers.shared.revision_history import claim_revisions
from kcm.actors.controllers.shared.status import write_status
from kcm.actors.controllers.shared.unknown_outcomes import UNREADABLE_DELAY, is_current
from kcm.actors.controllers.workloads.statefulset.concurrent_steps import FAILURES, abreast, slow_start_abreast
from kcm.actors.controllers.workloads.statefulset.fields import StatefulSet, stateful_set
from kcm.actors.controllers.workloads.statefulset.identity import ordinal_of_key
from kcm.actors.controllers.workloads.statefulset.metrics import StatefulSetMetrics
from kcm.actors.controllers.workloads.statefulset.pod_control import PodControl
from kcm.actors.controllers.workloads.statefulset.pod_steps import (
    Members,
    PodStep,
    first_unavailable,
    members_of,
    next_for_update,
    revision_of,
    some_for_update,
    step_for_condemned,
    step_for_replica,
    unavailable_replicas,
)
from kcm.actors.controllers.workloads.statefulset.replacement_backoff import Patience
from kcm.actors.controllers.workloads.statefulset.revisions import (
    Revisions,
    revision_for,
    settle_revisions,
    template_of,
    truncate_history,
)
from kcm.actors.controllers.workloads.statefulset.status import differs, status_of
from kcm.actors.reconciliation import Reconciliation, RequeueAfter, Step
from kcm.protocols.messages.outcomes import CommandError
from kcm.protocols.objects import Key, is_deleting, key_of, name_of
from kcm.protocols.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

BURST = 500  # pods that policy Parallel creates in one sync


class _Managed(NamedTuple):
    """acted: pods or claims may have been written. wait: seconds to look again after."""

    acted: bool = False
    wait: float | None = None


class StatefulSetReconciler:
    """Key: "namespace/name" of a StatefulSet."""

    def __init__(
        self, *, tables: Tables, clock: Clock, metrics: StatefulSetMetrics, several_unavailable: bool = False
    ) -> None:
        """several_unavailable: the feature gate MaxUnavailableStatefulSet."""
        self._sets, self._pods = tables[STATEFULSETS], tables[PODS]
        self._claims, self._revisions = tables[PERSISTENT_VOLUME_CLAIMS], tables[CONTROLLER_REVISIONS]
        self._clock, self._metrics, self._several_unavailable = clock, metrics, several_unavailable
        self._patience = Patience()

    def reconcile(self, key: Key) -> Reconciliation:
        entry = self._sets.entry(key)
        if entry is None:
            self._metrics.forget(key)
            self._patience.forget(key)
            return None
        obj = self._sets.object_of(entry)
        found = stateful_set(obj)
        known = yield from claim_revisions(
            self._revisions, owner=obj, owners=STATEFULSETS, matches=found.selector.matches, releases=False
        )
        pods = yield from claim(
            [*self._pods.entries_owned_by(entry.uid), *self._pods.orphan_entries(found.namespace)],
            lister=self._pods,
            owner=obj,
            owners=STATEFULSETS,
            matches=found.selector.matches,
            belongs=lambda pod: ordinal_of_key(pod.key, found.name) is not None,
        )
        if not is_current(self._sets, entry):
            return (yield from self.reconcile(key))
        if self._pods.first_unreadable(found.namespace, owner=found.uid) is not None:
            return RequeueAfter(UNREADABLE_DELAY)
        revisions = yield from settle_revisions(found, known)
        failure: Exception | None = None
        managed = _Managed(acted=True)
        # One time for all decisions and for the status: a pod that becomes available while claims are written would
        # else be counted as available, so that nothing syncs the set again, though its successors still wait for it.
        now = self._clock.now()
        try:
            managed = yield from self._manage(found, revisions, pods, now)
        except FAILURES as err:
            failure = err
        if managed.acted:
            pods = self._pods_of(found)
        status = status_of(
            found,
            pods,
            current=revisions.current_name,
            update=revisions.update_name,
            collision_count=revisions.collision_count,
            now=now,
        )
        try:
            if differs(found, status):
                yield from write_status(STATEFULSETS, obj, status)
        except CommandError as err:
            failure = failure or err
        yield from truncate_history(found, revisions, map(revision_of, pods))
        if failure is not None:
            raise failure
        waits = [] if managed.wait is None else [managed.wait]
        if found.min_ready_seconds > 0 and status.get("readyReplicas", 0) != status["availableReplicas"]:
            waits.append(self._next_availability(found, pods, counted=now))
        return RequeueAfter(max(0.0, min(waits))) if waits else None

    def _next_availability(self, found: StatefulSet, pods: Sequence[Entry], *, counted: float) -> float:
        """Seconds until the next ready pod is available."""
        soonest = seconds_to_next_availability(
            [pod.facts for pod in pods],
            min_ready_seconds=found.min_ready_seconds,
            counted=counted,
            now=self._clock.now(),
        )
        return found.min_ready_seconds if soonest is None else soonest

    def _pods_of(self, found: StatefulSet) -> list[Entry]:
        """Its pods as they are now: those that it owns and selects, and that have a name of its own."""
        return [
            pod
            for pod in self._pods.entries_owned_by(found.uid)
            if found.selector.matches(pod.facts.labels) and ordinal_of_key(pod.key, found.name) is not None
        ]

    def _manage(self, found: StatefulSet, revisions: Revisions, pods: Sequence[Entry], now: float) -> Step[_Managed]:
        """Create missing pods, delete condemned pods, then continue a rolling update."""
        if self._several_unavailable:
            self._metrics.allowed(found, found.at_once())
        if is_deleting(found.obj):
            return _Managed()
        control = PodControl(found, pods=self._pods, claims=self._claims)
        members = members_of(found, pods)
        sync = _Sync(
            found,
            revisions,
            members,
            control=control,
            patience=self._patience,
            now=now,
            uptime=self._clock.monotonic(),
        )
        settled = yield from sync.in_order() if found.ordered else sync.in_parallel()
        acted = sync.acted
        if settled and found.rolling:
            members = members_of(found, self._pods_of(found)) if acted else members
            if (yield from self._update(found, revisions, members, control, now)):
                acted = True
        return _Managed(acted, sync.wait)

    def _update(
        self, found: StatefulSet, revisions: Revisions, members: Members, control: PodControl, now: float
    ) -> Step[bool]:
        """Delete outdated pods, as many as may be unavailable at once. Returns whether there were any."""
        choose = next_for_update
        if self._several_unavailable:
            self._metrics.unavailable(found, unavailable_replicas(found, members, now=now))
            choose = some_for_update
        old = choose(found, members, update=revisions.update_name, now=now)
        failures = yield from abreast(control.delete(members.replicas[ordinal]) for ordinal in old)
        if failures:
            raise failures[0]
        return bool(old)


class _Sync:
    """The pods of one set as one sync found them, and the steps that the sync takes.

    acted: the sync may have written something. wait: seconds until a pod may be created that is held back now.
    """

    def __init__(
        self,
        found: StatefulSet,
        revisions: Revisions,
        members: Members,
        *,
        control: PodControl,
        patience: Patience,
        now: float,
        uptime: float,
    ) -> None:
        """now: Unix seconds. uptime: monotonic seconds."""
        self._set, self._revisions, self._members = found, revisions, members
        self._control, self._patience = control, patience
        self._now, self._uptime, self._key = now, uptime, key_of(found.obj)
        self.acted = False
        self.wait: float | None = None

    def in_order(self) -> Step[bool]:
        """One pod after the other, until one has to be waited for. Returns whether none had."""
        for ordinal in self._set.ordinals:
            if not self._needs(ordinal):
                continue
            self.acted = True
            if (yield from self._replica(ordinal)):
                return False
        if not self._members.condemned:
            return True
        self.acted = True
        for ordinal, pod in self._members.condemned.items():
            yield from self._keep_condemned(pod, ordinal)
        ordinal, pod = next(iter(self._members.condemned.items()))
        is_first = first_unavailable(self._set, self._members, now=self._now) == ordinal
        if step_for_condemned(self._set, pod.facts, is_first_unavailable=is_first, now=self._now) is PodStep.DELETE:
            yield from self._control.delete(pod)
        return False

    def in_parallel(self) -> Step[bool]:
        """All pods at once. Returns whether all were looked at."""
        needy, is_all = self._needy()
        self.acted = bool(needy or self._members.condemned)
        yield from slow_start_abreast(map(self._replica, needy))
        if not is_all:
            return False
        condemned = self._members.condemned
        yield from slow_start_abreast(self._keep_condemned(pod, ordinal) for ordinal, pod in condemned.items())
        yield from slow_start_abreast(self._control.delete(pod) for pod in condemned.values() if not pod.facts.deleting)
        return True

    def _needy(self) -> tuple[list[int], bool]:
        """The pods that need something now, and whether that is all: it is not beyond a number of missing ones."""
        needy: list[int] = []
        missing = 0
        for ordinal in self._set.ordinals:
            if ordinal not in self._members.replicas:
                if self._is_held_back(ordinal):
                    continue
                if missing == BURST:
                    return needy, False
                missing += 1
            elif not self._needs(ordinal):
                continue
            needy.append(ordinal)
        return needy, True

    def _is_held_back(self, ordinal: int) -> bool:
        """Whether a pod is not created yet, as its predecessors ended at once."""
        left = self._patience.seconds_left(self._key, self._set.uid, ordinal, now=self._uptime)
        if left:
            self.wait = left if self.wait is None else min(left, self.wait)
        return left > 0

    def _needs(self, ordinal: int) -> bool:
        """Whether something is to be done, or waited for: mostly there is not."""
        pod = self._members.replicas.get(ordinal)
        if pod is None or step_for_replica(self._set, pod.facts, now=self._now) is not PodStep.KEEP:
            return True
        if pod.facts.phase == "Pending" and not self._control.claims_are_there(ordinal):
            return True
        return not self._control.needs_nothing(pod, ordinal)

    def _replica(self, ordinal: int) -> Step[bool]:
        """What a pod that is wanted needs now. Returns whether its successors have to wait."""
        pod = self._members.replicas.get(ordinal)
        if pod is None:
            if self._is_held_back(ordinal):
                return True
            revision = revision_for(self._set, self._revisions, ordinal)
            template = template_of(self._set, revision)
            yield from self._control.create(ordinal, template=template, revision=name_of(revision))
            return True
        step = step_for_replica(self._set, pod.facts, now=self._now)
        if step is PodStep.REPLACE:
            yield from self._control.delete(pod)
            age = None if pod.facts.created is None else self._now - pod.facts.created
            self._patience.ended(self._key, self._set.uid, ordinal, age=age, now=self._uptime)
            return True
        if pod.facts.phase == "Pending":
            yield from self._control.complete_claims(pod, ordinal)
        if step is PodStep.KEEP:
            yield from self._control.keep(pod, ordinal)
        return step is PodStep.WAIT

    def _keep_condemned(self, pod: Entry, ordinal: int) -> Step[None]:
        if not self._control.claims_have_their_owners(pod, ordinal):
            yield from self._control.own_claims(pod, ordinal)
