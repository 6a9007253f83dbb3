"""Pod garbage collector: deletes pods that no kubelet will delete.

These are terminated pods beyond --terminated-pod-gc-threshold, oldest first; terminating pods on a node that is out of
service, or not bound to a node; and pods of nodes that do not exist. A pass over all pods runs every 20 s. Out: pods
that are not terminated are set to Failed; then each pod is deleted with grace period 0.

Source: kubernetes v1.36 pkg/controller/podgc/gc_controller.go. Differences:
- A pod to which several reasons apply is deleted once in a pass. A pod that is already deleted is not an error.
- The deletion has the pod's uid as precondition.
- The quarantine of a node that was created again starts over when the node is missing again.
- The reasons are checked again before each write: a pod is kept if its node exists again, or is in service again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from kcm.actors.controllers.shared.pod_disruption import disruption_condition, observed_generation
from kcm.actors.options import ControllerOptions
from kcm.actors.reconciliation import Because, Reconciliation, Step, batches, delete, get_live, merge_status, together
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass
from kcm.protocols.conditions import is_true
from kcm.protocols.integers import counted
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome
from kcm.protocols.nodes import OUT_OF_SERVICE_TAINT
from kcm.protocols.objects import Key, Object, split_key
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import NODES, PODS
from kcm.runtime.flags.declaration import flag
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

PERIOD = 20.0  # seconds from the end of a pass to the next
QUARANTINE = 40.0  # seconds for which a node must have been missing before its pods are deleted
BATCH = 100  # pods whose writes are sent together
CONDITION_REASON = "DeletionByPodGC"
ALIVE = ("Pending", "Running", "Unknown")  # phases; a pod without a phase counts as terminated, as upstream


FORCE_DELETIONS = Family(
    name="pod_gc_collector_force_delete_pods_total",
    kind="counter",
    help="Number of pods that are being forcefully deleted since the Pod GC Controller started.",
    labels=("namespace", "reason"),
)
FORCE_DELETION_ERRORS = Family(
    name="pod_gc_collector_force_delete_pod_errors_total",
    kind="counter",
    help="Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
    labels=("namespace", "reason"),
)


class PodGarbageCollectorOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "PodGCController"

    terminated_pod_threshold: int = flag(
        12500,
        "Number of terminated pods above which the oldest are deleted. 0 or less disables this.",
        name="terminated-pod-gc-threshold",
        config="TerminatedPodGCThreshold",
    )


class Reason(StrEnum):
    """Reason why a pod is deleted. The values are those of the label `reason` in upstream's metrics."""

    TERMINATED = "terminated"
    OUT_OF_SERVICE = "out-of-service"
    ORPHANED = "orphaned"
    UNSCHEDULED = "unscheduled"


_WORDS = {
    Reason.TERMINATED: "terminated ones above --terminated-pod-gc-threshold",
    Reason.OUT_OF_SERVICE: "terminating on nodes that are out of service",
    Reason.ORPHANED: "bound to nodes that do not exist",
    Reason.UNSCHEDULED: "terminating and never bound to a node",
}


class DeletionMeter(Struct, frozen=True, kw_only=True):
    """Callbacks that count deletions in the metrics. Their arguments are the pod's namespace and the reason."""

    attempted: Callable[[str, Reason], None]  # before each deletion
    failed: Callable[[str, Reason], None]  # after each failed deletion


def surplus(ended: Collection[Entry], *, threshold: int, is_evicted: Callable[[Entry], bool]) -> list[Entry]:
    """Return the terminated pods to delete: evicted pods first, then the oldest.

    ended: all terminated pods.
    threshold: number of terminated pods to keep; 0 or less keeps all.
    """
    count = len(ended) - threshold
    if threshold <= 0 or count <= 0:
        return []

    def priority(pod: Entry) -> tuple[bool, float, str, Key]:
        return not is_evicted(pod), pod.facts.created or 0.0, split_key(pod.key)[1], pod.key

    return sorted(ended, key=priority)[:count]


def is_out_of_service(node: Object) -> bool:
    """Report whether the node has the out-of-service taint, and is not ready."""
    taints = (node.get("spec") or {}).get("taints") or ()
    if not any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in taints):
        return False
    return not is_true((node.get("status") or {}).get("conditions"), "Ready")


class PodGarbageCollector:
    """Periodic pass that deletes the pods that no kubelet will delete.

    It records which nodes are missing. The pods of a missing node are deleted after a quarantine of 40 s, if a live
    read does not find the node either.
    """

    def __init__(
        self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, meter: DeletionMeter, threshold: int
    ) -> None:
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._clock, self._log, self._meter = clock, log, meter
        self._threshold = threshold
        self._missing: dict[str, float] = {}  # by missing node that pods are bound to, when its quarantine ends

    def collect(self) -> Reconciliation:
        """Delete all pods that no kubelet will delete, for one of the four reasons in Reason. Source: gc."""
        pods = self._readable_pods()
        nodes = {node.key: node for node in self._nodes.entries()}
        handled: set[str] = set()  # uids of pods that another reason has applied to in this pass

        def unhandled(candidates: Iterable[Entry]) -> list[Entry]:
            chosen = [pod for pod in candidates if pod.uid not in handled]
            handled.update(pod.uid for pod in chosen)
            return chosen

        ended: list[Entry] = []
        deleting: list[Entry] = []
        missing: set[str] = set()
        for pod in pods:  # once for all reasons, because there may be hundreds of thousands
            facts = pod.facts
            if facts.phase not in ALIVE:
                ended.append(pod)
            if facts.deleting:
                deleting.append(pod)
            if facts.node and facts.node not in nodes:
                missing.add(facts.node)
        yield from self._remove(
            unhandled(surplus(ended, threshold=self._threshold, is_evicted=self._is_evicted)), Reason.TERMINATED
        )
        if any(pod.facts.node for pod in deleting):
            out = {name for name, node in nodes.items() if self._is_out_of_service(node)}
            yield from self._remove(unhandled(pod for pod in deleting if pod.facts.node in out), Reason.OUT_OF_SERVICE)
        deleted_nodes = yield from self._deleted_nodes(missing)
        orphaned = [pod for pod in pods if pod.facts.node in deleted_nodes] if deleted_nodes else []
        yield from self._remove(unhandled(orphaned), Reason.ORPHANED)
        yield from self._remove(unhandled(pod for pod in deleting if not pod.facts.node), Reason.UNSCHEDULED)
        return None

    def _readable_pods(self) -> list[Entry]:
        """Return the pods of which the current version, and that of their node, could be decoded.

        Of the others the tables contain earlier versions, on which no deletion may be based.
        """
        pods = self._pods.entries()
        unreadable = {pod.key for pod in self._pods.unreadable()}
        nodes = {node.key for node in self._nodes.unreadable()}
        if not unreadable and not nodes:
            return pods
        return [pod for pod in pods if pod.key not in unreadable and pod.facts.node not in nodes]

    def _is_evicted(self, pod: Entry) -> bool:
        # The bytes are searched first, so that thousands of pods need not be decoded.
        if pod.facts.phase != "Failed" or b'"Evicted"' not in pod.raw:
            return False
        return bool(self._pods.object_of(pod)["status"].get("reason") == "Evicted")

    def _is_out_of_service(self, node: Entry) -> bool:
        return OUT_OF_SERVICE_TAINT.encode() in node.raw and is_out_of_service(self._nodes.object_of(node))

    def _deleted_nodes(self, missing: Iterable[str]) -> Step[set[str]]:
        """Return the names of the deleted nodes that pods are still bound to.

        A node counts as deleted once it has been missing from the table for the quarantine, and a live read does not
        find it.

        missing: names of the nodes that pods are bound to, and that the table does not contain.
        """
        now = self._clock.monotonic()
        self._missing = {name: self._missing.get(name, now + QUARANTINE) for name in sorted(missing)}
        suspects = [name for name, until in self._missing.items() if until <= now]
        if len(self._missing) > len(suspects):
            yield Because(
                f"pods are bound to {counted(len(self._missing), 'missing node')}, in quarantine for {QUARANTINE:.0f} s"
            )
        for name in suspects:
            del self._missing[name]
        outcomes = yield from together([get_live(NODES, name) for name in suspects])
        return {name for name, outcome in zip(suspects, outcomes, strict=True) if isinstance(outcome, NotFound)}

    def _remove(self, pods: Sequence[Entry], reason: Reason) -> Step[None]:
        """Set pods that are not terminated to Failed, then delete them, in batches."""
        if pods:
            yield Because(f"deletes {counted(len(pods), 'pod')}, {_WORDS[reason]}, such as {pods[0].key}")
        for batch in batches(pods, BATCH):
            deletable = self._still_deletable(batch, reason)
            for pod in deletable:
                namespace, name = split_key(pod.key)
                self._log.info(f"PodGC is force deleting Pod: {namespace}:{name}", uid=pod.uid, reason=str(reason))
                self._meter.attempted(namespace, reason)
            alive = [pod for pod in deletable if not is_terminal(pod.facts)]
            unmarked = yield from self._send(alive, [self._mark(pod, reason) for pod in alive], reason)
            rest = self._still_deletable([pod for pod in deletable if pod.key not in unmarked], reason)
            yield from self._send(rest, [_deletion(pod) for pod in rest], reason)

    def _still_deletable(self, pods: Sequence[Entry], reason: Reason) -> Sequence[Entry]:
        """Return the pods that must still be deleted for this reason. Called again before each batch of writes.

        During earlier requests of the pass, the node of a pod may have been created again or put back into service.
        """
        if reason not in (Reason.ORPHANED, Reason.OUT_OF_SERVICE):
            return pods
        nodes = {name: self._nodes.entry(name) for name in {pod.facts.node for pod in pods}}
        if reason is Reason.ORPHANED:
            return [pod for pod in pods if nodes[pod.facts.node] is None]
        out = {name for name, node in nodes.items() if node is not None and self._is_out_of_service(node)}
        return [pod for pod in pods if pod.facts.node in out]

    def _mark(self, pod: Entry, reason: Reason) -> Command:
        """Return a command that sets the pod's phase to Failed, with condition DisruptionTarget if it is orphaned."""
        obj = self._pods.object_of(pod)
        changes: Object = {"phase": "Failed", **observed_generation(obj)}
        if reason is Reason.ORPHANED:
            condition = disruption_condition(
                obj, reason=CONDITION_REASON, message="PodGC: node no longer exists", now=self._clock.now()
            )
            if condition is not None:
                changes["conditions"] = [condition]
        return merge_status(PODS, obj, changes)

    def _send(self, pods: Sequence[Entry], commands: Sequence[Command], reason: Reason) -> Step[set[Key]]:
        """Send one command for each pod concurrently. Returns the keys of the pods whose command failed."""
        outcomes = yield from together(commands)
        self._record_failures(zip(pods, outcomes, strict=True), reason)
        return {pod.key for pod, outcome in zip(pods, outcomes, strict=True) if not isinstance(outcome, Done)}

    def _record_failures(self, tried: Iterator[tuple[Entry, Outcome]], reason: Reason) -> None:
        for pod, outcome in tried:
            match outcome:
                case Done() | NotFound() | Conflict():
                    pass  # Conflict: the pod was replaced by one of the same name, which the next pass handles
                case _:
                    self._meter.failed(split_key(pod.key)[0], reason)
                    self._log.warning(
                        "pod not deleted", key=pod.key, uid=pod.uid, reason=str(reason), error=outcome.message
                    )


def _deletion(pod: Entry) -> Command:
    node = pod.facts.node
    on_node = ((NODES, node),) if node else ()
    return delete(PODS, pod, grace_seconds=0, depends_on=((PODS, pod.key), *on_node))


def deletion_meter(metrics: Metrics) -> DeletionMeter:
    def attempted(namespace: str, reason: Reason) -> None:
        metrics.counter(FORCE_DELETIONS, namespace, reason).inc()

    def failed(namespace: str, reason: Reason) -> None:
        metrics.counter(FORCE_DELETION_ERRORS, namespace, reason).inc()

    return DeletionMeter(attempted=attempted, failed=failed)


def _build(context: ControllerContext) -> PodGarbageCollector:
    return PodGarbageCollector(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        meter=deletion_meter(context.metrics),
        threshold=context.options[PodGarbageCollectorOptions].terminated_pod_threshold,
    )


SPEC = ControllerSpec(
    name="pod-garbage-collector-controller",
    aliases=("podgc",),
    never_blocks=True,
    client="pod-garbage-collector",
    passes=(Pass("pods", every=PERIOD, run=PodGarbageCollector.collect, queue="orphaned_pods_nodes"),),
    reads=(PODS, NODES),
    build=_build,
    options=PodGarbageCollectorOptions,
)
