"""Invariant of PodDisruptionBudgets: their statuses count no evicted pods, and permit no unjustified evictions."""

from __future__ import annotations

from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import InferredSyncs, ValueHistory
from kcm.actors.simulation.invariants.observer import (
    Admitted,
    Committed,
    Fail,
    Observation,
    OutcomeReceived,
    ProcessStarted,
    Submitted,
    decoded,
    facts_of_pod,
    only,
)
from kcm.actors.simulation.invariants.ownership import storage_of
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.commands import Update
from kcm.protocols.objects import Object, decode_object, key_of, labels_of, namespace_of, resource_version_of, uid_of
from kcm.protocols.resources import POD_DISRUPTION_BUDGETS, PODS
from kcm.protocols.selectors import label_selector_of
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, StoreChange

SENDER = controller_name("disruption-controller")
EVICTED = "EvictionByEvictionAPI"
# Seconds during which a status must not count an evicted pod. The controller does not count it for a longer timeout,
# and then assumes that the pod was not deleted.
EVICTION_TIMEOUT = 100.0


class CountsNoEvictedPod:
    """Invariant: the status of a PodDisruptionBudget counts no more healthy pods than the controller may have known.

    A pod may count if it was ready and not terminating at some version from that of the controller's informer cache to
    the latest version. An evicted pod must not count if the status is based on a version of the budget that contains
    the eviction, which the API server records there in the same commit. Evictions from before the creation of
    the budget are not recorded there.

    Also, disruptionsAllowed is at most currentHealthy minus desiredHealthy.
    """

    name = "no evicted pod counts as healthy"
    observes = (
        ProcessStarted,
        only(Submitted, SENDER),
        only(OutcomeReceived, SENDER),
        only(Admitted, SENDER),
        only(Committed, storage_of(POD_DISRUPTION_BUDGETS), "pods"),
    )

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._healthy: ValueHistory[bool] = ValueHistory()  # by the pod's uid
        self._pods: dict[str, Object] = {}  # latest versions of pods, by uid
        self._evicted: dict[str, tuple[int, float]] = {}  # version and time of the eviction, by the pod's uid
        self._created: dict[str, int] = {}  # first versions of budgets, by uid
        self._revision = 0
        self._syncs: InferredSyncs[int] = InferredSyncs(cluster)

    def observe(self, observation: Observation, fail: Fail) -> None:
        match observation:
            case ProcessStarted(process):
                self._syncs.started(process)
            case Committed(changes):
                for change in changes:
                    self._committed(change)
            case Submitted(process, system, submit) if submit.sender == SENDER:
                # A reconciliation that reads a scale has read the pods before.
                owner, seen = f"{submit.queue} {submit.key}", system.tables[PODS.id].version
                begun = self._syncs.submitted(process, SENDER, owner, submit.commands, lambda: seen)
                for command in submit.commands:
                    if isinstance(command, Update) and command.resource == POD_DISRUPTION_BUDGETS.id:
                        self._check(begun, command, fail)
            case OutcomeReceived(command=command) if command is not None:
                self._syncs.settled(command)
            case Admitted(process, name) if name == SENDER:
                self._syncs.admitted(*observation)

    def _committed(self, change: StoreChange) -> None:
        self._revision = max(self._revision, change.revision)
        if change.storage == storage_of(POD_DISRUPTION_BUDGETS) and change.type == ADDED:
            self._created[uid_of(decoded(change.raw))] = change.revision
        if change.storage != "pods":
            return
        pod = decoded(change.raw)
        uid, facts = uid_of(pod), facts_of_pod(change.raw)
        self._pods[uid] = pod
        self._healthy.note(uid, change.revision, facts.ready and not facts.deleting and change.type != DELETED)
        condition = find_condition((pod.get("status") or {}).get("conditions"), "DisruptionTarget") or {}
        if condition.get("reason") == EVICTED and uid not in self._evicted:
            self._evicted[uid] = (change.revision, self._cluster.clock.monotonic())

    def _check(self, begun: int, command: Update, fail: Fail) -> None:
        """Check the status in an update. begun: version that the cache of pods had reached when the sync began."""
        budget = decode_object(command.body)
        status, version = budget["status"], int(resource_version_of(budget))
        condition = find_condition(status.get("conditions"), "DisruptionAllowed") or {}
        if condition.get("reason") == "SyncFailed":
            return  # after a failed sync the status keeps its earlier counts, and permits no disruptions
        most = sum(self._may_count(budget, uid, begun, version) for uid in self._pods)
        if status["currentHealthy"] > most:
            fail(f"{key_of(budget)}: {status['currentHealthy']} pods are counted as healthy, at most {most} are")
        spare = max(0, status["currentHealthy"] - status["desiredHealthy"])
        if status["disruptionsAllowed"] > spare:
            fail(f"{key_of(budget)} allows {status['disruptionsAllowed']} disruptions instead of at most {spare}")

    def _may_count(self, budget: Object, uid: str, begun: int, version: int) -> bool:
        pod = self._pods[uid]
        selector = label_selector_of((budget.get("spec") or {}).get("selector"))
        if namespace_of(pod) != namespace_of(budget) or not selector.matches(labels_of(pod)):
            return False
        eviction, at = self._evicted.get(uid, (version + 1, 0.0))
        is_noted = self._created.get(uid_of(budget), 0) <= eviction <= version
        if is_noted and self._cluster.clock.monotonic() - at < EVICTION_TIMEOUT:
            return False
        return any(self._healthy.between(uid, begun, self._revision))
