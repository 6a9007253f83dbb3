"""Taint eviction controller: deletes pods that do not tolerate the NoExecute taints of their node.

A pod that tolerates them only for a time (tolerationSeconds) is deleted when this time has expired.

In: nodes whose NoExecute taints change, pods on nodes that have such taints. Out: the condition DisruptionTarget, then
the deletion; events on the pod. Key: "namespace/name" of a pod.

The tolerationSeconds of a pod are counted from when this controller first observed the taints. If taints or tolerations
change later, they are still counted from this time, as long as the pod tolerates all taints.

Source: kubernetes v1.36 pkg/controller/tainteviction/{taint_eviction,timed_workers}.go. As there, tolerationSeconds are
counted from zero again after a restart of the controller. Differences:
- When the tolerationSeconds have expired, the node is fetched, so that no eviction is based on a watch that lags.
- A failed deletion is retried until it succeeds or is no longer needed, not five times.
- An eviction can be cancelled until its deletion has been sent; upstream only until the eviction has begun.
- The deletion has the pod's uid as precondition. If this controller has deleted a pod that is still terminating, the
  pod is given no second event and condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from kcm.actors.controllers.nodes.node_lifecycle.options import NodeLifecycleOptions
from kcm.actors.controllers.shared.pod_disruption import DISRUPTION_TARGET, disruption_condition
from kcm.actors.reconciliation import (
    Because,
    Change,
    Enqueue,
    Interest,
    Reconciliation,
    RequeueAfter,
    Retry,
    Step,
    Watch,
    delete,
    get_live,
    merge_status,
    must,
)
from kcm.actors.reconciliation.derived import NODE, PODS_BY_NODE
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, decode_object, split_key, uid_of
from kcm.protocols.resources import NODES, PODS
from kcm.protocols.times import describe_time
from kcm.protocols.tolerations import find_toleration
from kcm.runtime.metrics.registry import Family
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NO_EXECUTE = "NoExecute"
REASON = "DeletionByTaintManager"
MESSAGE = "Taint manager: deleting due to NoExecute taint"
QUEUE = "noexec_taint_pod"
FETCH_VALIDITY = 10.0  # seconds for which a fetched node is not fetched again for its other pods
FETCH_RETRY = 1.0  # seconds after which a node that could not be fetched is fetched again, for all its pods


EVICTIONS = Family(
    name="taint_eviction_controller_pod_deletions_total",
    kind="counter",
    help="Total number of Pods deleted by TaintEvictionController since its start.",
)
EVICTION_DURATION = Family(
    name="taint_eviction_controller_pod_deletion_duration_seconds",
    kind="histogram",
    help="Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion "
    "via TaintEvictionController.",
    buckets=(0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0),
)


def no_execute_taints(node: Object) -> list[Mapping[str, Any]]:
    """Return the NoExecute taints of a node, in their order."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return [taint for taint in taints if taint.get("effect") == NO_EXECUTE]


class Tolerance(NamedTuple):
    """Time for which a pod tolerates the NoExecute taints of its node."""

    tolerated: bool  # all taints are tolerated, at least for a time
    seconds: float  # >= 0; math.inf without a limit


def tolerance(
    tolerations: Sequence[Mapping[str, Any]], taints: Iterable[Mapping[str, Any]], *, comparing: bool = False
) -> Tolerance:
    """Return for how long a pod with these tolerations may stay on a node with these NoExecute taints.

    For each taint the first toleration that matches it is used, and the shortest tolerationSeconds of these applies.

    comparing: whether tolerations may have the operators Lt and Gt, which compare numbers.
    """
    seconds = math.inf
    for taint in taints:
        toleration = find_toleration(tolerations, taint, comparing=comparing)
        if toleration is None:
            return Tolerance(tolerated=False, seconds=0.0)
        limit = toleration.get("tolerationSeconds")
        if limit is not None:
            seconds = min(seconds, max(0.0, float(limit)))
    return Tolerance(tolerated=True, seconds=seconds)


def pods_on_node(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue all pods on a node that is new, or whose NoExecute taints (including timeAdded) have changed.

    The deletion of a node does not enqueue its pods. Evictions that are planned already are still carried out, and the
    pod garbage collector deletes the other pods.
    """
    if change.deleted:
        return ()
    if change.old is not None and no_execute_taints(change.old) == no_execute_taints(change.new):
        return ()
    return [pod.key for pod in tables[PODS].indexed_entries(NODE, change.key)]


def pod_on_tainted_node(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue a pod that is deleted, or bound to a node that may have NoExecute taints."""
    pod = tables[PODS].entry(change.key)
    if pod is not None:
        node = tables[NODES].entry(pod.facts.node)
        if node is None or b'"NoExecute"' not in node.raw:  # cheap: may match other text, but never misses a taint
            return ()
    return (change.key,)


WATCHES = (
    Watch(
        NODES,
        to=pods_on_node,
        interest=Interest(types=(EventType.ADDED, EventType.MODIFIED), changed=("no_execute_taints",)),
    ),
    Watch(PODS, to=pod_on_tainted_node, interest=Interest(changed=("node", "tolerations"), filled=("node",))),
)


class _Eviction(Struct, kw_only=True):
    """Planned deletion of a pod that does not tolerate the taints of its node, or tolerates them only for a time."""

    uid: str
    node: str
    due: float  # monotonic seconds
    delayed: bool  # the pod tolerates the taints for a time
    marked: bool = False  # the event about the deletion has been recorded


class TaintEvictionReconciler:
    """Reconciler of pods, with the planned eviction of each pod in memory. Key: "namespace/name"."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        evicted: Callable[[float], None],
        comparing: bool = False,
    ) -> None:
        """Create the reconciler.

        evicted: callback for each deleted pod; its argument is the seconds by which the deletion was late.
        comparing: whether tolerations may have the operators Lt and Gt.
        """
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._clock, self._log, self._evicted, self._comparing = clock, log, evicted, comparing
        self._evictions: dict[Key, _Eviction] = {}
        self._fetched: dict[str, float] = {}  # by node, when it was last fetched
        self._fetching: dict[str, set[Key]] = {}  # by node that is being fetched, the other pods that wait for it
        self._not_before: dict[str, float] = {}  # by node that could not be fetched, when it may be fetched again

    def reconcile(self, key: Key) -> Reconciliation:
        """Plan or cancel the eviction of a pod, or delete the pod when its eviction is due. Source: handlePodUpdate."""
        eviction = yield from self._plan(key)
        if eviction is not None and eviction.delayed and eviction.due <= self._clock.monotonic():
            wait = yield from self._fetch_node(key, eviction.node)
            if wait > 0:
                yield Because(f"is due for eviction: waits until node {eviction.node} has been read from the server")
                return RequeueAfter(wait)
            eviction = yield from self._plan(key)
        if eviction is None:
            return None
        seconds = eviction.due - self._clock.monotonic()
        if seconds > 0:
            yield Because(
                f"evicts it at {describe_time(self._clock.now() + seconds)}: {self._taints_of(eviction.node)}"
            )
            return RequeueAfter(seconds)
        yield Because(f"evicts it: {self._taints_of(eviction.node)}, which it does not tolerate any longer")
        yield from self._evict(key, eviction)
        replanned = self._evictions.get(key)  # not None if the taints have changed again meanwhile
        return None if replanned is None else RequeueAfter(max(0.0, replanned.due - self._clock.monotonic()))

    def _plan(self, key: Key) -> Step[_Eviction | None]:
        """Plan, keep or cancel the eviction of a pod, as its tolerations and its node's taints require.

        Returns the planned eviction; None if the pod does not have to be evicted. Raises UnreadableError if the pod or
        its node cannot be decoded.
        """
        self._pods.require(key)
        pod = self._pods.entry(key)
        eviction = self._evictions.get(key)
        if eviction is not None and (pod is None or pod.uid != eviction.uid):
            yield from self._cancel(key)
            eviction = None
        if pod is None or not pod.facts.node:
            return None
        self._nodes.require(pod.facts.node)
        node = self._nodes.entry(pod.facts.node)
        if node is None:
            return eviction
        allowed = self._tolerance(pod, node)
        now = self._clock.monotonic()
        if math.isinf(allowed.seconds) or (not allowed.tolerated and eviction is not None and eviction.due > now):
            yield from self._cancel(key)
            eviction = None
        if eviction is None and math.isfinite(allowed.seconds) and not self._is_evicted(pod):
            eviction = self._evictions[key] = _Eviction(
                uid=pod.uid, node=node.key, due=now + allowed.seconds, delayed=allowed.seconds > 0
            )
        return eviction

    def _tolerance(self, pod: Entry, node: Entry) -> Tolerance:
        taints = no_execute_taints(self._nodes.object_of(node))
        if not taints:
            return Tolerance(tolerated=True, seconds=math.inf)
        tolerations = (self._pods.object_of(pod).get("spec") or {}).get("tolerations") or ()
        return tolerance(tolerations, taints, comparing=self._comparing)

    def _taints_of(self, node: str) -> str:
        """Return in words the NoExecute taints of a node."""
        entry = self._nodes.entry(node)
        taints = () if entry is None else no_execute_taints(self._nodes.object_of(entry))
        return (
            f"node {node} has the NoExecute taints {', '.join(str(taint.get('key')) for taint in taints) or '(none)'}"
        )

    def _is_evicted(self, pod: Entry) -> bool:
        """Report whether this controller has already deleted the pod, possibly before a restart."""
        if not pod.facts.deleting:
            return False
        conditions = (self._pods.object_of(pod).get("status") or {}).get("conditions")
        condition = find_condition(conditions, DISRUPTION_TARGET)
        return condition is not None and condition.get("reason") == REASON

    def _cancel(self, key: Key) -> Step[None]:
        if self._evictions.pop(key, None) is not None:
            yield Because("cancels its eviction: it tolerates the taints of its node, or was deleted")
            yield _event(key, f"Cancelling deletion of Pod {key}")

    def _fetch_node(self, key: Key, node: str) -> Step[float]:
        """Fetch the pod's node from the API server, so that the lister returns its live version afterwards.

        The pods of one node are often due at the same time. Then the sync of one pod fetches the node for all of them,
        and the others wait; a node fetched in the last 10 s is not fetched again.

        key: the pod.
        Returns the seconds to wait before the pod is reconciled again; 0.0 if the node has been fetched. Raises Retry
        if the fetch failed.
        """
        now = self._clock.monotonic()
        if now - self._fetched.get(node, -math.inf) < FETCH_VALIDITY:
            return 0.0
        if now < self._not_before.get(node, now):
            return self._not_before[node] - now
        if node in self._fetching:
            self._fetching[node].add(key)
            return FETCH_RETRY  # it is enqueued immediately when the node has been fetched
        waiting = self._fetching[node] = set()
        try:
            outcome = yield get_live(NODES, node)
        finally:
            del self._fetching[node]
        now = self._clock.monotonic()
        if not isinstance(outcome, Done | NotFound):
            self._not_before[node] = now + FETCH_RETRY
            raise Retry(f"node {node} could not be fetched: {outcome}", after=FETCH_RETRY)
        self._not_before.pop(node, None)
        self._fetched = {name: when for name, when in self._fetched.items() if now - when < FETCH_VALIDITY}
        self._fetched[node] = now
        for other in sorted(waiting):
            yield Enqueue(QUEUE, other)
        return 0.0

    def _evict(self, key: Key, eviction: _Eviction) -> Step[None]:
        """Delete a pod whose eviction is due, after an event and a live read of the pod."""
        if not eviction.marked:
            eviction.marked = True
            yield _event(key, f"Marking for deletion Pod {key}")
        found = yield from must(get_live(PODS, key), but=(NotFound,))
        if isinstance(found, Done):
            pod = decode_object(found.body)
            if uid_of(pod) == eviction.uid and (yield from self._is_still_planned(key, eviction)):
                yield from self._delete(key, pod, eviction)
        # Otherwise the pod is deleted, or replaced by a pod of the same name; the watch will report that.
        if self._evictions.get(key) is eviction:
            del self._evictions[key]

    def _is_still_planned(self, key: Key, eviction: _Eviction) -> Step[bool]:
        """Report whether the pod must still be evicted, as planned.

        Called after each request, during which the taints of the node may have changed.
        """
        return (yield from self._plan(key)) is eviction

    def _delete(self, key: Key, pod: Object, eviction: _Eviction) -> Step[None]:
        """Write the condition DisruptionTarget, then delete the pod unless its eviction has been cancelled."""
        condition = disruption_condition(pod, reason=REASON, message=MESSAGE, now=self._clock.now())
        if condition is not None:
            outcome = yield from must(merge_status(PODS, pod, {"conditions": [condition]}), but=(NotFound,))
            if isinstance(outcome, NotFound) or not (yield from self._is_still_planned(key, eviction)):
                return
        command = delete(PODS, pod, depends_on=((PODS, key), (NODES, eviction.node)))
        outcome = yield from must(command, but=(NotFound,))
        if isinstance(outcome, Done):
            self._evicted(self._clock.monotonic() - eviction.due)
            self._log.info("pod evicted", key=key, uid=eviction.uid, node=eviction.node)


def _event(key: Key, message: str) -> Record:
    """Return an event about the pod with this key. As upstream, the event does not contain the pod's uid."""
    namespace, name = split_key(key)
    return Record(PODS.api_version, PODS.kind, namespace, name, "", "", "Normal", "TaintManagerEviction", message)


def _build(context: ControllerContext) -> TaintEvictionReconciler:
    deletions = context.metrics.counter(EVICTIONS)
    duration = context.metrics.histogram(EVICTION_DURATION)

    def evicted(seconds: float) -> None:
        deletions.inc()
        duration.observe(seconds)

    return TaintEvictionReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        evicted=evicted,
        comparing=context.options.feature_gates["TaintTolerationComparisonOperators"],
    )


SPEC = ControllerSpec(
    name="taint-eviction-controller",
    never_blocks=True,
    client="node-controller",
    queues=(Queue(QUEUE, watches=WATCHES, concurrency=8, terminal=()),),
    indexes=(PODS_BY_NODE,),
    build=_build,
    enabled_if=lambda options: options[NodeLifecycleOptions].enable_taint_manager,
    needs="--enable-taint-manager",
)
