"""Reconciler of ReplicaSets and ReplicationControllers.

Reads the owners and their pods. Creates and deletes pods (at most 500 per sync), writes adoption and release patches
and the status subresource, and records events on the owner.

Source: kubernetes v1.36 pkg/controller/replicaset/replica_set.go. Differences:

- No expectations and no consistency store: listers show our own writes.
- The controller chooses the names of pods (actors/controllers/shared/generated_names.py), so that a creation with
  unknown outcome is retried under the same name; a deletion with unknown outcome is retried for the same pod
  (actors/controllers/shared/unknown_outcomes.py).
- Pods that fail right after their creation are replaced with backoff (actors/controllers/shared/replacements.py).
- The status counts the pods after the sync has created and deleted pods; upstream counts them before. A new ReplicaSet
  therefore takes one status write instead of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kcm.actors.controllers.shared.deletion_order import deletion_age_ratios, ranked_deletion_order, related_on_nodes
from kcm.actors.controllers.shared.generated_names import generated_names
from kcm.actors.controllers.shared.ownership import claim
from kcm.actors.controllers.shared.pod_control import (
    Creations,
    Deletions,
    PodForm,
    create_pods,
    delete_pods,
    fetch_existing,
)
from kcm.actors.controllers.shared.replacements import Replacements, next_delay
from kcm.actors.controllers.shared.replica_status import count_pods, next_status, seconds_to_next_availability
from kcm.actors.controllers.shared.status import write_status
from kcm.actors.controllers.shared.unknown_outcomes import (
    RETRY_DELAY,
    UNREADABLE_DELAY,
    UnknownOutcomes,
    is_current,
    raise_if_unknown,
)
from kcm.actors.controllers.workloads.replicaset.kind import (
    REPLICASET,
    ReplicaKind,
    ReplicaSpec,
    replica_spec,
    selector_of,
)
from kcm.actors.reconciliation import Because, Reconciliation, RequeueAfter, Step
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.objects import Key, Object, is_deleting, metadata, split_key
from kcm.protocols.pods import PodFacts, is_active
from kcm.protocols.resources import PODS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BURST = 500  # pods created or deleted in one sync


class _Pods(NamedTuple):
    """Pods of one owner, and orphans that it may adopt, by state."""

    candidates: list[Entry]  # active pods to claim
    terminating: list[PodFacts]
    failed: list[Key]  # in phase Failed


class _Managed(NamedTuple):
    """Result of creating or deleting pods in a sync."""

    attempted: bool = False  # whether any pod was to be created or deleted
    failure: CommandError | None = None  # for the sync to raise once the status is written
    wait: float | None = None  # seconds to requeue after


class ReplicaSetReconciler:
    """Reconciles ReplicaSets, or the owners that `kind` describes. Key: "namespace/name" of the owner."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        observe_age_ratio: Callable[[float], None],  # observes replicaset_controller_sorting_deletion_age_ratio
        log: FilteringBoundLogger,
        kind: ReplicaKind = REPLICASET,
        burst: int = BURST,
    ) -> None:
        self._owners, self._pods = tables[kind.resource], tables[PODS]
        self._clock, self._observe_age_ratio, self._log = clock, observe_age_ratio, log
        self._kind, self._burst = kind, burst
        self._replacements: dict[Key, Replacements] = {}  # by owner that has Failed pods
        self._unknown: dict[Key, UnknownOutcomes[None]] = {}  # by owner for which pods were created or deleted

    def reconcile(self, key: Key) -> Reconciliation:
        """Sync a ReplicaSet or ReplicationController. Source: syncReplicaSet."""
        entry = self._owners.entry(key)
        if entry is None:
            self._replacements.pop(key, None)
            self._unknown.pop(key, None)
            return None
        owner = self._owners.object_of(entry)
        spec = replica_spec(owner, self._kind)
        pods = self._sort(entry)
        claimed = yield from claim(
            pods.candidates,
            lister=self._pods,
            owner=owner,
            owner_resource=self._kind.resource,
            matches=spec.selector.matches,
        )
        if not is_current(self._owners, entry):
            return (yield from self.reconcile(key))
        managed = _Managed()
        if not is_deleting(owner):
            managed = yield from self._manage(entry, owner, spec, claimed, pods.failed)
        else:
            yield Because("is being deleted: creates and deletes no pods")
        surplus = len(claimed) - spec.replicas
        if managed.attempted:
            pods = self._sort(entry)
            claimed = [pod for pod in pods.candidates if pod.controller is not None and pod.controller.uid == entry.uid]
        active = [pod.facts for pod in claimed]
        counted = self._clock.now()
        counts = count_pods(
            active,
            template_labels=spec.template_labels,
            min_ready_seconds=spec.min_ready_seconds,
            now=counted,
            terminating=self._terminating(pods, spec),
        )
        status = next_status(
            spec.status,
            counts,
            generation=metadata(owner).get("generation") or 0,
            failure=_condition(managed.failure, surplus),
            now=counted,
        )
        if status is not None:
            if not managed.attempted:
                yield Because(f"{counts.available} of {counts.replicas} pods are available, {counts.ready} are ready")
            yield from write_status(self._kind.resource, owner, status)
        if managed.failure is not None:
            raise managed.failure
        waits = [] if managed.wait is None else [managed.wait]
        if spec.min_ready_seconds > 0 and counts.ready != counts.available:
            soonest = seconds_to_next_availability(
                active, min_ready_seconds=spec.min_ready_seconds, counted=counted, now=self._clock.now()
            )
            waits.append(spec.min_ready_seconds if soonest is None else soonest)
        return RequeueAfter(max(0.0, min(waits))) if waits else None

    def _sort(self, owner: Entry) -> _Pods:
        # Terminal pods are neither claimed nor counted; the pod garbage collector deletes them.
        pods = _Pods([], [], [])
        for pod in self._pods.entries_owned_by(owner.uid):
            facts = pod.facts
            if facts.phase in ("Failed", "Succeeded"):
                if facts.phase == "Failed":
                    pods.failed.append(pod.key)
            elif facts.deleting:
                pods.terminating.append(facts)
            else:
                pods.candidates.append(pod)
        namespace, _ = split_key(owner.key)
        pods.candidates.extend(pod for pod in self._pods.orphan_entries(namespace) if is_active(pod.facts))
        return pods

    def _terminating(self, pods: _Pods, spec: ReplicaSpec) -> int | None:
        if not self._kind.counts_terminating:
            return None
        return sum(1 for pod in pods.terminating if spec.selector.matches(pod.labels))

    def _manage(
        self, entry: Entry, owner: Object, spec: ReplicaSpec, active: Sequence[Entry], failed: Sequence[Key]
    ) -> Step[_Managed]:
        """Create missing pods or delete surplus pods. Source: manageReplicas."""
        missing = spec.replicas - len(active)
        if missing and self._pods.first_unreadable(split_key(entry.key)[0], owner=entry.uid) is not None:
            yield Because("one of its pods is unreadable: creates and deletes none")
            return _Managed(wait=UNREADABLE_DELAY)  # the unreadable pod may be the missing pod, or a surplus one
        held, wait = self._held_back(entry, failed, missing)
        if missing > 0:
            count = min(missing - held, self._burst)
            delayed = "" if wait is None else f", {held} in {wait:.0f} s, as pods failed soon after their creation"
            yield Because(f"has {len(active)} of {spec.replicas} pods; creates {count}{delayed}")
            creations = yield from self._create(entry, owner, spec, count)
            raise_if_unknown(creations)
            if creations.existing:
                wait = RETRY_DELAY
            return _Managed(attempted=True, failure=creations.failure, wait=wait)
        if missing < 0:
            yield Because(
                f"has {counted(len(active), 'pod')} and needs {spec.replicas}; deletes {min(-missing, self._burst)}"
            )
            deletions = yield from self._delete(entry, owner, active, min(-missing, self._burst))
            wait = RETRY_DELAY if deletions.conflicting else None
            return _Managed(attempted=True, failure=deletions.failure, wait=wait)
        if entry.key in self._unknown:
            self._unknown[entry.key].maybe_deleted.clear()
        return _Managed()

    def _held_back(self, entry: Entry, failed: Sequence[Key], missing: int) -> tuple[int, float | None]:
        """Return how many creations to delay because earlier pods failed soon after their creation, and for how many
        seconds.
        """
        replacements = self._replacements.get(entry.key)
        if replacements is not None and replacements.owner_uid != entry.uid:
            replacements = None
        if replacements is None:
            self._replacements.pop(entry.key, None)
            if not failed:
                return 0, None
            replacements = self._replacements[entry.key] = Replacements(entry.uid)
        now = self._clock.monotonic()
        quick = replacements.count_quick_failures(failed, now)
        replacements.delay = next_delay(replacements.delay, quick_failures=quick, missing=missing, now=now)
        held = replacements.delay.held
        if quick:
            self._log.warning("pods failed at once", key=entry.key, count=quick, held_back=held)
        return held, replacements.delay.until - now if held else None

    def _create(self, entry: Entry, owner: Object, spec: ReplicaSpec, count: int) -> Step[Creations]:
        if count == 0:
            return Creations()
        form = PodForm(spec.template, owner=owner, owner_resource=self._kind.resource)

        def taken(pod: Key) -> bool:
            return self._pods.entry(pod) is not None

        unknown = self._unknown.setdefault(entry.key, UnknownOutcomes())
        retried = unknown.names_to_retry(form.namespace, taken=taken)
        names = list(dict.fromkeys([*retried, *generated_names(owner, count, taken=taken)]))[:count]
        creations = yield from create_pods(form, names, owner=owner, owner_resource=self._kind.resource)
        replacements = self._replacements.get(entry.key)
        if replacements is not None:
            replacements.record_creations(creations.created, self._clock.monotonic())
        if creations.created:
            self._log.info("pods created", key=entry.key, count=len(creations.created))
        unknown.record_creations(creations, (yield from fetch_existing(creations)))
        return creations

    def _delete(self, entry: Entry, owner: Object, active: Sequence[Entry], count: int) -> Step[Deletions]:
        unknown = self._unknown.setdefault(entry.key, UnknownOutcomes())
        victims = active
        if count < len(active):
            now = self._clock.now()
            victims = ranked_deletion_order(
                active, on_node=self._related_pods(entry), now=now, by_cost=self._kind.heeds_deletion_cost
            )
            victims = unknown.maybe_deleted_first(victims)
            for ratio in deletion_age_ratios(victims, count, now=now):
                self._observe_age_ratio(ratio)
        deletions = yield from delete_pods(victims[:count], owner=owner, owner_resource=self._kind.resource)
        unknown.record_deletions(deletions)
        if deletions.deleted:
            self._log.info("pods deleted", key=entry.key, count=len(deletions.deleted))
        return deletions

    def _related_pods(self, owner: Entry) -> Mapping[str, int]:
        """Count the active pods per node that belong to sibling owners, which have the same controller as this one.

        Source: getIndirectlyRelatedPods.
        """
        if not self._kind.ranks_by_siblings or owner.controller is None:
            return {}
        selectors = []
        for sibling in self._owners.owned_by(owner.controller.uid):
            try:
                selectors.append(selector_of(sibling, self._kind))
            except ValueError:
                continue  # a malformed selector matches no pods
        namespace, _ = split_key(owner.key)
        return related_on_nodes(
            pod
            for pod in self._pods.entries(namespace)
            if any(selector.matches(pod.facts.labels) for selector in selectors)
        )


def _condition(failure: CommandError | None, surplus: int) -> tuple[str, str] | None:
    """Return reason and message of the condition ReplicaFailure; None if nothing failed."""
    if failure is None:
        return None
    return "FailedCreate" if surplus < 0 else "FailedDelete", failure.failure.message
