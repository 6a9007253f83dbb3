"""Reconciler of StatefulSets.

Reads StatefulSets, their pods, claims and ControllerRevisions. Creates, deletes and updates pods, creates claims and
sets their owner references, writes ControllerRevisions, adoption and release patches and the status subresource, and
records events on the StatefulSet.

Source: kubernetes v1.36 pkg/controller/statefulset/stateful_set.go, stateful_set_control.go. Differences:

- No consistency store: listers show our own writes.
- The deletion of a claim enqueues its set, which may be waiting for the deletion or must create the claim again.
- A pod that ends soon after its creation is replaced with backoff (replacement_backoff.py).
- With the policy Parallel, at most 500 pods are created per sync, and the status is written after each sync.
- No pods are created or deleted while a pod of the set is unreadable.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from kcm.actors.controllers.shared.ownership import claim
from kcm.actors.controllers.shared.replica_status import seconds_to_next_availability
from kcm.actors.controllers.shared.revision_history import claim_revisions
from kcm.actors.controllers.shared.status import write_status
from kcm.actors.controllers.shared.unknown_outcomes import UNREADABLE_DELAY, is_current
from kcm.actors.controllers.workloads.statefulset.concurrent_steps import FAILURES, run_together, run_with_slow_start
from kcm.actors.controllers.workloads.statefulset.identity import ordinal_of_key
from kcm.actors.controllers.workloads.statefulset.metrics import StatefulSetMetrics
from kcm.actors.controllers.workloads.statefulset.objects import StatefulSet, parse_stateful_set
from kcm.actors.controllers.workloads.statefulset.pod_control import PodControl, SettledPod
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
from kcm.actors.controllers.workloads.statefulset.replacement_backoff import ReplacementBackoff
from kcm.actors.controllers.workloads.statefulset.revisions import (
    Revisions,
    revision_for,
    settle_revisions,
    template_of,
    truncate_history,
)
from kcm.actors.controllers.workloads.statefulset.status import differs, status_of
from kcm.actors.reconciliation import Because, Reconciliation, RequeueAfter, Step
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.objects import Key, Object, name_of
from kcm.protocols.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

BURST = 500  # pods that policy Parallel creates in one sync
MOST_NAMED = 5  # pods that a reason names


class _Managed(NamedTuple):
    """Result of creating, deleting and updating pods."""

    attempted: bool = False  # whether pods or claims may have been written
    wait: float | None = None  # seconds to requeue after


class _Memory(Struct):
    """Pods of a set that need not be examined again while its spec and their entries stay the same.

    A set of many pods is synced at each change of one of them.

    uid, spec: of the set.
    claimed: pods that the set owns and selects.
    """

    uid: str
    spec: Object
    claimed: frozenset[Entry] = frozenset()
    settled: dict[int, SettledPod] = field(default_factory=dict)


class StatefulSetReconciler:
    """Reconciles StatefulSets. Key: "namespace/name" of a StatefulSet."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        metrics: StatefulSetMetrics,
        several_unavailable: bool = False,  # feature gate MaxUnavailableStatefulSet
        on_delete_completes: bool = False,  # from 1.37 on, see status_of
    ) -> None:
        self._sets, self._pods = tables[STATEFULSETS], tables[PODS]
        self._claims, self._revisions = tables[PERSISTENT_VOLUME_CLAIMS], tables[CONTROLLER_REVISIONS]
        self._clock, self._metrics, self._several_unavailable = clock, metrics, several_unavailable
        self._on_delete_completes = on_delete_completes
        self._backoff = ReplacementBackoff()
        self._memories: dict[Key, _Memory] = {}

    def reconcile(self, key: Key) -> Reconciliation:
        entry = self._sets.entry(key)
        if entry is None:
            self._metrics.forget(key)
            self._backoff.forget(key)
            self._memories.pop(key, None)
            return None
        obj = self._sets.object_of(entry)
        stateful_set = parse_stateful_set(obj)
        memory = self._memories.get(key)
        if memory is None or memory.uid != entry.uid or memory.spec != (obj.get("spec") or {}):
            memory = self._memories[key] = _Memory(entry.uid, obj.get("spec") or {})
        known = yield from claim_revisions(
            self._revisions,
            owner=obj,
            owner_resource=STATEFULSETS,
            matches=stateful_set.selector.matches,
            releases=False,
        )
        pods = yield from claim(
            [*self._pods.entries_owned_by(entry.uid), *self._pods.orphan_entries(stateful_set.namespace)],
            lister=self._pods,
            owner=obj,
            owner_resource=STATEFULSETS,
            matches=stateful_set.selector.matches,
            belongs=lambda pod: ordinal_of_key(pod.key, stateful_set.name) is not None,
            known=memory.claimed,
        )
        memory.claimed = frozenset(pods)
        if not is_current(self._sets, entry):
            return (yield from self.reconcile(key))
        if self._pods.first_unreadable(stateful_set.namespace, owner=stateful_set.uid) is not None:
            yield Because("one of its pods is unreadable: creates and deletes none")
            return RequeueAfter(UNREADABLE_DELAY)
        revisions = yield from settle_revisions(stateful_set, known)
        failure: Exception | None = None
        managed = _Managed(attempted=True)
        # One time for all decisions and for the status. Otherwise a pod that becomes available during a write would be
        # counted as available in the status, and nothing would sync the set again, although its successors wait for it.
        now = self._clock.now()
        try:
            managed = yield from self._manage(stateful_set, revisions, pods, memory, now)
        except FAILURES as err:
            failure = err
        if managed.attempted:
            pods = self._pods_of(stateful_set, memory.claimed)
        status = status_of(
            stateful_set,
            pods,
            current=revisions.current_name,
            update=revisions.update_name,
            collision_count=revisions.collision_count,
            now=now,
            on_delete_completes=self._on_delete_completes,
        )
        try:
            if differs(stateful_set, status):
                yield from write_status(STATEFULSETS, obj, status)
        except CommandError as err:
            failure = failure or err
        yield from truncate_history(stateful_set, revisions, map(revision_of, pods))
        if failure is not None:
            raise failure
        if not managed.attempted and status.get("updatedReplicas", 0) != stateful_set.replicas:
            yield Because(
                f"{status['availableReplicas']} of {stateful_set.replicas} pods are available, "
                f"{status.get('updatedReplicas', 0)} have the update revision"
            )
        waits = [] if managed.wait is None else [managed.wait]
        if stateful_set.min_ready_seconds > 0 and status.get("readyReplicas", 0) != status["availableReplicas"]:
            waits.append(self._next_availability(stateful_set, pods, counted=now))
        return RequeueAfter(max(0.0, min(waits))) if waits else None

    def _next_availability(self, stateful_set: StatefulSet, pods: Sequence[Entry], *, counted: float) -> float:
        """Return the seconds until the next ready pod becomes available.

        counted: time at which the status was computed, in Unix seconds.
        """
        soonest = seconds_to_next_availability(
            [pod.facts for pod in pods],
            min_ready_seconds=stateful_set.min_ready_seconds,
            counted=counted,
            now=self._clock.now(),
        )
        return stateful_set.min_ready_seconds if soonest is None else soonest

    def _pods_of(self, stateful_set: StatefulSet, claimed: Collection[Entry]) -> list[Entry]:
        """Return the pods that the set owns and selects according to the table, and whose names belong to the set.

        claimed: pods for which this is known.
        """
        return [
            pod
            for pod in self._pods.entries_owned_by(stateful_set.uid)
            if pod in claimed
            or (
                stateful_set.selector.matches(pod.facts.labels)
                and ordinal_of_key(pod.key, stateful_set.name) is not None
            )
        ]

    def _manage(
        self,
        stateful_set: StatefulSet,
        revisions: Revisions,
        pods: Sequence[Entry],
        memory: _Memory,
        now: float,
    ) -> Step[_Managed]:
        """Create missing pods and delete condemned pods, then advance a rolling update. Source: updateStatefulSet."""
        if self._several_unavailable:
            self._metrics.allowed(stateful_set, stateful_set.at_once())
        if stateful_set.is_deleting:
            yield Because("is being deleted: creates and deletes no pods")
            return _Managed()
        control = PodControl(stateful_set, pods=self._pods, claims=self._claims, settled=memory.settled)
        members = members_of(stateful_set, pods)
        sync = _Sync(
            stateful_set,
            revisions,
            members,
            control=control,
            backoff=self._backoff,
            now=now,
            uptime=self._clock.monotonic(),
        )
        all_processed = yield from sync.in_order() if stateful_set.ordered else sync.in_parallel()
        attempted = sync.attempted
        if all_processed and stateful_set.rolling:
            if attempted:
                members = members_of(stateful_set, self._pods_of(stateful_set, memory.claimed))
            if (yield from self._update(stateful_set, revisions, members, control, now)):
                attempted = True
        return _Managed(attempted, sync.wait)

    def _update(
        self, stateful_set: StatefulSet, revisions: Revisions, members: Members, control: PodControl, now: float
    ) -> Step[bool]:
        """Delete outdated pods as far as the update strategy permits. Return whether any had to be deleted."""
        choose = next_for_update
        if self._several_unavailable:
            self._metrics.unavailable(stateful_set, unavailable_replicas(stateful_set, members, now=now))
            choose = some_for_update
        old = choose(stateful_set, members, update=revisions.update_name, now=now)
        if old:
            names = ", ".join(f"{stateful_set.name}-{ordinal}" for ordinal in old[:MOST_NAMED])
            yield Because(
                f"rolling update to {revisions.update_name}: deletes {counted(len(old), 'outdated pod')}: {names}"
            )
        failures = yield from run_together(control.delete(members.replicas[ordinal]) for ordinal in old)
        if failures:
            raise failures[0]
        return bool(old)


class _Sync:
    """Processes the pods of one set in one sync.

    `attempted` reports whether the sync may have written anything; `wait` is the number of seconds until a delayed pod
    may be created, or None.
    """

    def __init__(
        self,
        stateful_set: StatefulSet,
        revisions: Revisions,
        members: Members,
        *,
        control: PodControl,
        backoff: ReplacementBackoff,
        now: float,  # Unix seconds
        uptime: float,  # monotonic seconds
    ) -> None:
        self._set, self._revisions, self._members = stateful_set, revisions, members
        self._control, self._backoff = control, backoff
        self._now, self._uptime, self._key = now, uptime, stateful_set.key
        self.attempted = False
        self.wait: float | None = None

    def in_order(self) -> Step[bool]:
        """Process the pods one after another, until a pod must be waited for.

        Return whether all pods were processed.
        """
        for ordinal in self._set.ordinals:
            if not self._needs(ordinal):
                continue
            self.attempted = True
            yield Because(self._reason(ordinal))
            if (yield from self._replica(ordinal)):
                return False
        if not self._members.condemned:
            return True
        self.attempted = True
        for ordinal, pod in self._members.condemned.items():
            yield from self._keep_condemned(pod, ordinal)
        ordinal, pod = next(iter(self._members.condemned.items()))
        is_first = first_unavailable(self._set, self._members, now=self._now) == ordinal
        name = f"{self._set.name}-{ordinal}"
        if step_for_condemned(self._set, pod.facts, is_first_unavailable=is_first, now=self._now) is PodStep.DELETE:
            yield Because(f"scales down to {self._set.replicas} pods: deletes {name}")
            yield from self._control.delete(pod)
        elif pod.facts.deleting:
            yield Because(f"scales down to {self._set.replicas} pods: waits for the end of {name}")
        else:
            yield Because(f"scales down: waits to delete {name} until the pods before it are available")
        return False

    def in_parallel(self) -> Step[bool]:
        """Process all pods concurrently.

        Return False if more than BURST pods are missing, and not all were processed.
        """
        pending, is_complete = self._pending()
        self.attempted = bool(pending or self._members.condemned)
        if self.attempted:
            missing = sum(ordinal not in self._members.replicas for ordinal in pending)
            yield Because(
                f"Parallel: creates {missing} of {self._set.replicas} pods, corrects or replaces "
                f"{len(pending) - missing}, deletes {len(self._members.condemned)}"
            )
        yield from run_with_slow_start(map(self._replica, pending))
        if not is_complete:
            return False
        condemned = self._members.condemned
        yield from run_with_slow_start(
            self._control.own_claims(pod, ordinal)
            for ordinal, pod in condemned.items()
            if not self._control.claims_have_their_owners(pod, ordinal)
        )
        yield from run_with_slow_start(
            self._control.delete(pod) for pod in condemned.values() if not pod.facts.deleting
        )
        return True

    def _pending(self) -> tuple[list[int], bool]:
        """Return the ordinals to process, and whether the list is complete. It contains at most BURST missing pods."""
        pending: list[int] = []
        missing = 0
        for ordinal in self._set.ordinals:
            if ordinal not in self._members.replicas:
                if self._is_held_back(ordinal):
                    continue
                if missing == BURST:
                    return pending, False
                missing += 1
            elif not self._needs(ordinal):
                continue
            pending.append(ordinal)
        return pending, True

    def _is_held_back(self, ordinal: int) -> bool:
        """Report whether the pod must not be created yet because its predecessors ended soon after their creation."""
        left = self._backoff.seconds_left(self._key, self._set.uid, ordinal, now=self._uptime)
        if left:
            self.wait = left if self.wait is None else min(left, self.wait)
        return left > 0

    def _needs(self, ordinal: int) -> bool:
        """Report whether a pod requires a write, or must be waited for."""
        pod = self._members.replicas.get(ordinal)
        if pod is None or step_for_replica(self._set, pod.facts, now=self._now) is not PodStep.KEEP:
            return True
        return not self._control.needs_nothing(pod, ordinal)

    def _reason(self, ordinal: int) -> str:
        """Return why a pod is processed, with the policy OrderedReady."""
        pod, name = self._members.replicas.get(ordinal), f"{self._set.name}-{ordinal}"
        if pod is None:
            left = self._backoff.seconds_left(self._key, self._set.uid, ordinal, now=self._uptime)
            when = f" in {left:.0f} s, as the pods before it ended soon after their creation" if left else ""
            return f"creates pod {name}{when}: all pods with a lower ordinal are available"
        step = step_for_replica(self._set, pod.facts, now=self._now)
        if step is PodStep.REPLACE:
            return f"deletes pod {name} to replace it: it is {pod.facts.phase}"
        if step is PodStep.KEEP:
            return f"corrects labels or claims of pod {name}"
        if pod.facts.deleting:
            return f"waits for the end of pod {name}"
        ready = "ready" if pod.facts.ready else "not ready"
        return f"waits for pod {name} to be available: it is {pod.facts.phase}, {ready}"

    def _replica(self, ordinal: int) -> Step[bool]:
        """Create, replace or correct a pod. Return whether the pods after it must wait. Source: processReplica."""
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
            self._backoff.record_end(self._key, self._set.uid, ordinal, age=age, now=self._uptime)
            return True
        if pod.facts.phase == "Pending":
            yield from self._control.complete_claims(pod, ordinal)
        if step is PodStep.KEEP:
            yield from self._control.keep(pod, ordinal)
        return step is PodStep.WAIT

    def _keep_condemned(self, pod: Entry, ordinal: int) -> Step[None]:
        if not self._control.claims_have_their_owners(pod, ordinal):
            yield from self._control.own_claims(pod, ordinal)
