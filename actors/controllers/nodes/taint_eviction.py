"""taint-eviction-controller: deletes pods that do not tolerate a NoExecute taint of their node, or no longer do.

In: nodes whose NoExecute taints change, pods on nodes that have such taints. Out: the condition DisruptionTarget, then
the deletion; events on the pod. Key: "namespace/name" of a pod.

A pod that tolerates its node's taints for a while has that time from when this controller first saw them; neither
other taints nor other tolerations change its start, as long as all are tolerated.

Source: kubernetes v1.36 pkg/controller/tainteviction/{taint_eviction,timed_workers}.go. As there, a new incarnation
gives every pod its whole time again. Differences:
- Once the time is up the node is fetched, so that no eviction rests on a late watch.
- A deletion that fails is retried until it succeeds or has no cause any more, not five times.
- A pod is spared as long as its deletion has not been sent, there only until its eviction has begun.
- The deletion has the pod's uid as precondition. A pod that this controller is deleting already is not marked again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kcm.actors.controllers.nodes.node_lifecycle.options import NodeLifecycleOptions
from kcm.actors.controllers.shared.pod_disruption import DISRUPTION_TARGET, disruption_condition
from kcm.actors.reconciliation import (
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
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, decode_object, split_key, uid_of
from kcm.protocols.resources import NODES, PODS
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
FRESH = 10.0  # seconds for which a fetched node counts for its other pods too
LOOK_AGAIN = 1.0  # seconds after which a node that could not be fetched is, for all its pods


EVICTIONS = Family(
    name="taint_eviction_controller_pod_deletions_total",
    kind="counter",
    help="Pods deleted for a NoExecute taint of their node.",
)
EVICTION_DURATION = Family(
    name="taint_eviction_controller_pod_deletion_duration_seconds",
    kind="histogram",
    help="From when a pod's time was up to when it was deleted.",
    buckets=(0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0),
)


def no_execute_taints(node: Object) -> list[Mapping[str, Any]]:
    """The node's taints of this effect, in their order."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return [taint for taint in taints if taint.get("effect") == NO_EXECUTE]


class Stay(NamedTuple):
    """How long a pod may stay with some taints. tolerated: all of them are. seconds: >= 0; math.inf for ever."""

    tolerated: bool
    seconds: float


def stay(
    tolerations: Sequence[Mapping[str, Any]], taints: Iterable[Mapping[str, Any]], *, comparing: bool = False
) -> Stay:
    """For each taint the first toleration that matches it counts, and of these the shortest.

    comparing: whether the operators Lt and Gt are known.
    """
    seconds = math.inf
    for taint in taints:
        toleration = find_toleration(tolerations, taint, comparing=comparing)
        if toleration is None:
            return Stay(tolerated=False, seconds=0.0)
        limit = toleration.get("tolerationSeconds")
        if limit is not None:
            seconds = min(seconds, max(0.0, float(limit)))
    return Stay(tolerated=True, seconds=seconds)


def pods_on_node(change: Change, tables: Tables) -> Iterable[Key]:
    """All pods on a node that is new or whose NoExecute taints have changed in any way, their times included.

    Not those on a node that is deleted: their time runs on, and the pod garbage collector deletes them.
    """
    if change.deleted:
        return ()
    if change.old is not None and no_execute_taints(change.old) == no_execute_taints(change.new):
        return ()
    return [pod.key for pod in tables[PODS].indexed_entries(NODE, change.key)]


def pod_in_danger(change: Change, tables: Tables) -> Iterable[Key]:
    """A pod that is gone, or is bound to a node that may have NoExecute taints. A node's change enqueues its pods."""
    pod = tables[PODS].entry(change.key)
    if pod is not None:
        node = tables[NODES].entry(pod.facts.node)
        if node is None or b'"NoExecute"' not in node.raw:  # may match something else, but never misses a taint
            return ()
    return (change.key,)


WATCHES = (
    Watch(
        NODES,
        to=pods_on_node,
        interest=Interest(types=(EventType.ADDED, EventType.MODIFIED), changed=("no_execute_taints",)),
    ),
    Watch(PODS, to=pod_in_danger, interest=Interest(changed=("node", "tolerations"))),
)


@dataclass(slots=True, kw_only=True)
class _Eviction:
    """A planned one. due: monotonic. delayed: the pod tolerates the taints for a while. marked: its event was sent."""

    uid: str
    node: str
    due: float
    delayed: bool
    marked: bool = False


class TaintEvictionReconciler:
    """Key: "namespace/name" of a pod. It remembers the planned evictions."""

    def __init__(
        self,
        *,
        tables: Tables,
        clock: Clock,
        log: FilteringBoundLogger,
        evicted: Callable[[float], None],
        comparing: bool = False,
    ) -> None:
        """evicted: called for each deleted pod with how many seconds after its time it was deleted. comparing: whether
        tolerations may have the operators Lt and Gt.
        """
        self._pods, self._nodes = tables[PODS], tables[NODES]
        self._clock, self._log, self._evicted, self._comparing = clock, log, evicted, comparing
        self._evictions: dict[Key, _Eviction] = {}
        self._looked: dict[str, float] = {}  # when nodes were last fetched
        self._looking: dict[str, set[Key]] = {}  # nodes that are being fetched, and which other pods wait for that
        self._not_before: dict[str, float] = {}  # when nodes that could not be fetched may be again

    def reconcile(self, key: Key) -> Reconciliation:
        eviction = yield from self._judge(key)
        if eviction is not None and eviction.delayed and eviction.due <= self._clock.monotonic():
            wait = yield from self._fetch_node(key, eviction.node)
            if wait > 0:
                return RequeueAfter(wait)
            eviction = yield from self._judge(key)
        if eviction is None:
            return None
        seconds = eviction.due - self._clock.monotonic()
        if seconds > 0:
            return RequeueAfter(seconds)
        yield from self._evict(key, eviction)
        left = self._evictions.get(key)  # a new one, if the taints have changed meanwhile
        return None if left is None else RequeueAfter(max(0.0, left.due - self._clock.monotonic()))

    def _judge(self, key: Key) -> Step[_Eviction | None]:
        """The pod's eviction, by what the tables show; None if it may stay. Raises UnreadableError."""
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
        allowed = self._stay(pod, node)
        now = self._clock.monotonic()
        if math.isinf(allowed.seconds) or (not allowed.tolerated and eviction is not None and eviction.due > now):
            yield from self._cancel(key)
            eviction = None
        if eviction is None and math.isfinite(allowed.seconds) and not self._is_evicted(pod):
            eviction = self._evictions[key] = _Eviction(
                uid=pod.uid, node=node.key, due=now + allowed.seconds, delayed=allowed.seconds > 0
            )
        return eviction

    def _stay(self, pod: Entry, node: Entry) -> Stay:
        taints = no_execute_taints(self._nodes.object_of(node))
        if not taints:
            return Stay(tolerated=True, seconds=math.inf)
        tolerations = (self._pods.object_of(pod).get("spec") or {}).get("tolerations") or ()
        return stay(tolerations, taints, comparing=self._comparing)

    def _is_evicted(self, pod: Entry) -> bool:
        """By this incarnation or an earlier one: it is terminating, and its condition says why."""
        if not pod.facts.deleting:
            return False
        conditions = (self._pods.object_of(pod).get("status") or {}).get("conditions")
        condition = find_condition(conditions, DISRUPTION_TARGET)
        return condition is not None and condition.get("reason") == REASON

    def _cancel(self, key: Key) -> Step[None]:
        if self._evictions.pop(key, None) is not None:
            yield _event(key, f"Cancelling deletion of Pod {key}")

    def _fetch_node(self, key: Key, node: str) -> Step[float]:
        """The overlay then shows the node as it is. Returns 0.0, or the seconds after which its pod is to ask again.

        Pods of one node are due together: one of them fetches it for all, also when that has to be tried again.
        Raises Retry without an answer.
        """
        now = self._clock.monotonic()
        if now - self._looked.get(node, -math.inf) < FRESH:
            return 0.0
        if now < self._not_before.get(node, now):
            return self._not_before[node] - now
        if node in self._looking:
            self._looking[node].add(key)
            return LOOK_AGAIN  # it is enqueued at once when the answer comes
        waiting = self._looking[node] = set()
        try:
            outcome = yield get_live(NODES, node)
        finally:
            del self._looking[node]
        now = self._clock.monotonic()
        if not isinstance(outcome, Done | NotFound):
            self._not_before[node] = now + LOOK_AGAIN
            raise Retry(f"node {node} could not be fetched: {outcome}", after=LOOK_AGAIN)
        self._not_before.pop(node, None)
        self._looked = {name: when for name, when in self._looked.items() if now - when < FRESH}
        self._looked[node] = now
        for other in sorted(waiting):
            yield Enqueue(QUEUE, other)
        return 0.0

    def _evict(self, key: Key, eviction: _Eviction) -> Step[None]:
        if not eviction.marked:
            eviction.marked = True
            yield _event(key, f"Marking for deletion Pod {key}")
        found = yield from must(get_live(PODS, key), but=(NotFound,))
        if isinstance(found, Done):
            pod = decode_object(found.body)
            if uid_of(pod) == eviction.uid and (yield from self._stands(key, eviction)):
                yield from self._delete(key, pod, eviction)
        # Else it is gone, or another pod has its name, and the event of that is on its way.
        if self._evictions.get(key) is eviction:
            del self._evictions[key]

    def _stands(self, key: Key, eviction: _Eviction) -> Step[bool]:
        """Whether the pod still has to be evicted, as the answer may have taken long."""
        return (yield from self._judge(key)) is eviction

    def _delete(self, key: Key, pod: Object, eviction: _Eviction) -> Step[None]:
        condition = disruption_condition(pod, reason=REASON, message=MESSAGE, now=self._clock.now())
        if condition is not None:
            outcome = yield from must(merge_status(PODS, pod, {"conditions": [condition]}), but=(NotFound,))
            if isinstance(outcome, NotFound) or not (yield from self._stands(key, eviction)):
                return
        command = delete(PODS, pod, depends_on=((PODS, key), (NODES, eviction.node)))
        outcome = yield from must(command, but=(NotFound,))
        if isinstance(outcome, Done):
            self._evicted(self._clock.monotonic() - eviction.due)
            self._log.info("pod evicted", key=key, uid=eviction.uid, node=eviction.node)


def _event(key: Key, message: str) -> Record:
    """About the pod of this name, without its uid, as upstream."""
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
