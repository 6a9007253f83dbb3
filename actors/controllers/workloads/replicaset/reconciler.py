"""replicaset-controller: keeps as many pods as a ReplicaSet wants. The same code serves ReplicationControllers.

In: changes of ReplicaSets and pods. Out: pods created and deleted (500 a sync at most), adoption and release patches,
the status subresource, events on the ReplicaSet.

Source: kubernetes v1.36 pkg/controller/replicaset/replica_set.go. Differences:
- No expectations and no consistency store: listers show our own writes.
- Pod names are chosen here (actors/controllers/shared/pod_control.py), so that a creation is not made twice.
- Pods that fail at once are replaced with backoff (actors/controllers/shared/replacements.py).
- A creation without an answer leaves the status unwritten until it has been asked for again, under the same name; so
  does a pod that is there already and could not be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.controllers.shared.ownership import claim
from actors.controllers.shared.pod_control import Creations, Deletions, PodForm, create_pods, delete_pods, pod_names
from actors.controllers.shared.ranking import deletion_age_ratios, ranked_deletion_order, related_on_nodes
from actors.controllers.shared.replacements import Replacements, next_patience
from actors.controllers.shared.replica_status import count_pods, next_status, seconds_to_next_availability
from actors.controllers.shared.status import write_status
from actors.options import ControllerOptions
from actors.reconciliation import (
    ORPHANS,
    Change,
    Interest,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    get_live,
    its_controller,
    itself,
    together,
)
from protocols.messages.outcomes import CommandFailed, Done, NotFound, Refused
from protocols.objects import Key, Object, is_deleting, key_of, labels_of, make_key, metadata, split_key, uid_of
from protocols.pods import PodFacts, is_active
from protocols.resources import PODS, REPLICASETS, Resource
from protocols.selectors import LabelSelector, label_selector_of
from runtime.flags.declaration import flag
from runtime.scheduling.clock import Clock
from runtime.tables.overlay import Tables
from runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BURST = 500  # pods created or deleted in one sync
LOOK_AGAIN = 1.0  # seconds after a pod's name was found to exist, or a pod could not be deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSetOptions(ControllerOptions):
    configz_block = "ReplicaSetController"

    concurrent_syncs: int = flag(
        5, "ReplicaSets synced at once.", name="concurrent-replicaset-syncs", config="ConcurrentRSSyncs"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaKind:
    """What differs between the kinds that this controller serves.

    selector_of: makes a selector of the map in spec.selector; raises ValueError. counts_terminating: the status has
    terminatingReplicas. ranks_by_siblings: pods of all sets of one controller (a Deployment's ReplicaSets) count for
    how crowded a node is.
    """

    resource: Resource
    selector_of: Callable[[Mapping[str, Any]], LabelSelector]
    counts_terminating: bool
    ranks_by_siblings: bool


REPLICASET = ReplicaKind(
    resource=REPLICASETS, selector_of=label_selector_of, counts_terminating=True, ranks_by_siblings=True
)


class ReplicaSpec(NamedTuple):
    """What an owner wants, and the status that it has. template_labels: of the pod template."""

    replicas: int
    selector: LabelSelector
    template: Object
    template_labels: Mapping[str, str]
    min_ready_seconds: int
    status: Mapping[str, Any]


def replica_spec(owner: Object, kind: ReplicaKind) -> ReplicaSpec:
    """Raises ValueError that names the field which is missing or of the wrong type."""
    spec = owner.get("spec")
    if not isinstance(spec, dict):
        raise ValueError(f"spec is a map, got {spec!r}")
    template = spec.get("template")
    if not isinstance(template, dict):
        raise ValueError(f"spec.template is a map, got {template!r}")
    meta = template.get("metadata") or {}
    labels = (meta.get("labels") or {}) if isinstance(meta, dict) else None
    if not isinstance(labels, dict):
        raise ValueError(f"spec.template.metadata.labels is a map, got {labels!r}")
    status = owner.get("status") or {}
    if not isinstance(status, dict):
        raise ValueError(f"status is a map, got {status!r}")
    return ReplicaSpec(
        replicas=_count(spec, "replicas", 1),
        selector=selector_of(owner, kind),
        template=template,
        template_labels=labels,
        min_ready_seconds=_count(spec, "minReadySeconds", 0),
        status=status,
    )


def selector_of(owner: Object, kind: ReplicaKind) -> LabelSelector:
    """Raises ValueError also on an empty selector, with which an owner would take every orphan of its namespace."""
    spec = owner.get("spec")
    selector = spec.get("selector") if isinstance(spec, dict) else None
    if not isinstance(selector, dict):
        raise ValueError(f"spec.selector is a map, got {selector!r}")
    compiled = kind.selector_of(selector)
    if compiled.empty:
        raise ValueError("spec.selector is empty")
    return compiled


def _count(spec: Mapping[str, Any], field: str, default: int) -> int:
    value = spec.get(field)
    if value is None:
        return default
    if type(value) is not int or value < 0:
        raise ValueError(f"spec.{field} is a number from 0 on, got {value!r}")
    return value


def matching_owners(kind: ReplicaKind) -> Callable[[Change, Tables], Iterable[Key]]:
    """For a pod that has no controller, and is new, has lost its controller or changed its labels: all owners whose
    selector matches, as one of them may want to adopt it.
    """

    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        if change.controller is not None or change.deleted:
            return
        pod, old = change.new, change.old
        labels = labels_of(pod)
        if not labels or is_deleting(pod):
            return
        if old is not None and uid_of(old) == uid_of(pod):
            if change.previous_controller is None and labels_of(old) == labels:
                return
        for owner in tables[kind.resource].objects(change.namespace):
            try:
                selector = selector_of(owner, kind)
            except ValueError:
                continue  # its own sync says what is wrong with it
            if selector.matches(labels):
                yield key_of(owner)

    return keys


class _Pods(NamedTuple):
    """What the listers show for one owner. candidates: active ones to claim. failed: keys of those that failed."""

    candidates: list[Entry]
    terminating: list[PodFacts]
    failed: list[Key]


class _Managed(NamedTuple):
    """failure: what to end the sync with, after the status. wait: seconds after which to look again."""

    failure: CommandFailed | None = None
    wait: float | None = None


class ReplicaSetReconciler:
    """See the module. Key: "namespace/name" of a ReplicaSet, or of another kind that is much the same."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        observe_age_ratio: Callable[[float], None],
        log: FilteringBoundLogger,
        kind: ReplicaKind = REPLICASET,
        burst: int = BURST,
    ) -> None:
        """observe_age_ratio: takes the values of the histogram replicaset_controller_sorting_deletion_age_ratio."""
        self._owners, self._pods = tables[kind.resource], tables[PODS]
        self._clock, self._observe_age_ratio, self._log = clock, observe_age_ratio, log
        self._kind, self._burst = kind, burst
        self._replacements: dict[Key, Replacements] = {}  # of owners some of whose pods are Failed
        # By owner, the names of pods that were asked for and may be there, unseen: they are asked for first.
        self._unsure: dict[Key, list[str]] = {}

    def reconcile(self, key: Key) -> Reconciliation:
        entry = self._owners.entry(key)
        if entry is None:
            self._replacements.pop(key, None)
            self._unsure.pop(key, None)
            return None
        owner = self._owners.object_of(entry)
        spec = replica_spec(owner, self._kind)
        pods = self._sorted_out(entry)
        claimed = yield from claim(
            pods.candidates, lister=self._pods, owner=owner, owners=self._kind.resource, matches=spec.selector.matches
        )
        managed = _Managed()
        if not is_deleting(owner):
            managed = yield from self._manage(entry, owner, spec, claimed, pods.failed)
        # Counted from the pods before they were managed: what was made or deleted comes back as events.
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
            failure=_condition(managed.failure, len(active) - spec.replicas),
            now=counted,
        )
        if status is not None:
            yield from write_status(self._kind.resource, owner, status)
        if managed.failure is not None:
            raise managed.failure
        waits = [] if managed.wait is None else [managed.wait]
        if spec.min_ready_seconds > 0 and counts.ready != counts.available:
            soonest = seconds_to_next_availability(
                active, min_ready_seconds=spec.min_ready_seconds, counted=counted, now=self._clock.now()
            )
            waits.append(spec.min_ready_seconds if soonest is None else soonest)
        return RequeueAfter(min(waits)) if waits else None

    def _sorted_out(self, owner: Entry) -> _Pods:
        """Pods that are at their end are neither claimed nor counted; they are for others to remove."""
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
        """Create what is missing, or delete what is too much."""
        missing = spec.replicas - len(active)
        held, wait = self._held_back(entry, failed, missing)
        if missing > 0:
            made = yield from self._create(entry, owner, spec, min(missing - held, self._burst))
            if made.failure is not None and (made.unanswered or isinstance(made.failure.failure, Refused)):
                # Writing the status would change the version that the names rest on, and make the next try another one.
                raise made.failure
            if made.existing:
                wait = LOOK_AGAIN
            return _Managed(made.failure, wait)
        if missing < 0:
            gone = yield from self._delete(entry, owner, active, min(-missing, self._burst))
            return _Managed(gone.failure, LOOK_AGAIN if gone.conflicting else None)
        return _Managed()

    def _held_back(self, entry: Entry, failed: Sequence[Key], missing: int) -> tuple[int, float | None]:
        """How many pods not to make now as they would replace such that failed at once, and for how many seconds."""
        memory = self._replacements.get(entry.key)
        if memory is not None and memory.owner_uid != entry.uid:
            memory = None
        if memory is None:
            self._replacements.pop(entry.key, None)
            if not failed:
                return 0, None
            memory = self._replacements[entry.key] = Replacements(entry.uid)
        now = self._clock.monotonic()
        quick = memory.failed_at_once(failed, now)
        memory.patience = next_patience(memory.patience, failed_at_once=quick, missing=missing, now=now)
        held = memory.patience.held
        if quick:
            self._log.warning("pods failed at once", key=entry.key, count=quick, held_back=held)
        return held, memory.patience.until - now if held else None

    def _create(self, entry: Entry, owner: Object, spec: ReplicaSpec, count: int) -> Step[Creations]:
        if count == 0:
            return Creations()
        form = PodForm(spec.template, owner=owner, owners=self._kind.resource)

        def taken(pod: Key) -> bool:
            return self._pods.entry(pod) is not None

        again = [name for name in self._unsure.get(entry.key, ()) if not taken(make_key(form.namespace, name))]
        names = list(dict.fromkeys([*again, *pod_names(owner, count, taken=taken)]))[:count]
        creations = yield from create_pods(form, names, owner=owner, owners=self._kind.resource)
        memory = self._replacements.get(entry.key)
        if memory is not None:
            memory.made(creations.created, self._clock.monotonic())
        if creations.created:
            self._log.info("pods created", key=entry.key, count=len(creations.created))
        seen = yield from self._look_at(creations)
        known = {split_key(pod)[1] for pod in [*creations.created, *seen]}
        self._unsure[entry.key] = [name for name in dict.fromkeys([*again, *creations.unanswered]) if name not in known]
        return creations

    def _look_at(self, creations: Creations) -> Step[list[Key]]:
        """Look live at the pods that were there already; answers those of whom we now know, be it that they are gone.

        Whoever they are, we had not seen them; once we have, the next sync counts them or takes other names.
        """
        looks = [get_live(PODS, key) for key in creations.existing]
        outcomes = yield from together(looks)
        seen = []
        for look, outcome in zip(looks, outcomes, strict=True):
            if isinstance(outcome, Done | NotFound):
                seen.append(look.key)
            else:
                creations.failure = CommandFailed(look, outcome)
                creations.unanswered.append(split_key(look.key)[1])
        return seen

    def _delete(self, entry: Entry, owner: Object, active: Sequence[Entry], count: int) -> Step[Deletions]:
        victims = active
        if count < len(active):
            now = self._clock.now()
            victims = ranked_deletion_order(active, on_node=self._crowds(entry), now=now)
            for ratio in deletion_age_ratios(victims, count, now=now):
                self._observe_age_ratio(ratio)
        deletions = yield from delete_pods(victims[:count], owner=owner, owners=self._kind.resource)
        if deletions.deleted:
            self._log.info("pods deleted", key=entry.key, count=len(deletions.deleted))
        return deletions

    def _crowds(self, owner: Entry) -> Mapping[str, int]:
        """On each node, the active pods that the selectors of all owners of the same controller match."""
        if not self._kind.ranks_by_siblings or owner.controller is None:
            return {}
        selectors = []
        for sibling in self._owners.owned_by(owner.controller.uid):
            try:
                selectors.append(selector_of(sibling, self._kind))
            except ValueError:
                continue  # it matches no pods
        namespace, _ = split_key(owner.key)
        return related_on_nodes(
            pod
            for pod in self._pods.entries(namespace)
            if any(selector.matches(pod.facts.labels) for selector in selectors)
        )


def watches(kind: ReplicaKind) -> tuple[Watch[Key], ...]:
    return (
        Watch(kind.resource, to=itself),
        Watch(PODS, to=its_controller(kind.resource), interest=Interest(owner_kinds=(kind.resource.kind,))),
        Watch(PODS, to=matching_owners(kind), interest=Interest(owner_kinds=(ORPHANS,), changed=("labels",))),
    )


def _condition(failure: CommandFailed | None, surplus: int) -> tuple[str, str] | None:
    """Reason and message of the condition ReplicaFailure."""
    if failure is None:
        return None
    return "FailedCreate" if surplus < 0 else "FailedDelete", str(failure)
