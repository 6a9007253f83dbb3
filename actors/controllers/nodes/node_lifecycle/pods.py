"""Pods of failed nodes: they are marked not ready and, without taint-based evictions, deleted.

Taint-based evictions are disabled by --feature-gates=TaintBasedEvictions=false or --enable-taint-manager=false. Then
node-lifecycle-controller deletes the pods itself. A node is queued for eviction once its kubelet has sent no heartbeat,
or the node has not been ready, for longer than --pod-eviction-timeout. Its pods are deleted once, and again only if the
node has been ready in between. The eviction ends when the node is ready again.

Source: kubernetes v1.36 pkg/controller/util/node/controller_utils.go, MarkPodsNotReady; kubernetes 1.8
pkg/controller/node/node_controller.go and util/controller_utils.go (DeletePods); kubernetes 1.3
pkg/controller/node/deletion_utils.go (terminatePods), which later releases removed together with maximumGracePeriod.
Differences: a pod belongs to a DaemonSet if that is its controller, not if some DaemonSet's selector matches it; the
node is fetched before its pods are deleted; a conflict on one pod's status does not keep it from being deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.nodes.node_lifecycle.events import node_event
from kcm.actors.reconciliation import (
    Step,
    batches,
    delete,
    get_live,
    list_live,
    must,
    must_all,
    must_object,
    record,
    together,
    update,
)
from kcm.protocols.conditions import is_true
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.nodes import LEASE_NAMESPACE, NodeFacts
from kcm.protocols.objects import (
    Key,
    Object,
    controller_of,
    decode_object,
    is_deleting,
    key_of,
    make_key,
    metadata,
    name_of,
    uid_of,
)
from kcm.protocols.resources import LEASES, NODES, PODS, Resource
from kcm.protocols.times import format_time
from kcm.runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BATCH = 50  # updates sent together


def not_ready_pod(pod: Object, now: float) -> Object:
    """Return a copy of the pod whose condition Ready is False; reason and message are kept.

    now: Unix seconds, for lastTransitionTime.
    """
    status = pod["status"]
    change = {"status": "False", "lastTransitionTime": format_time(now)}
    conditions = [
        {**condition, **change} if condition.get("type") == "Ready" else condition for condition in status["conditions"]
    ]
    return {**pod, "status": {**status, "conditions": conditions}}


def mark_not_ready(pods: Iterable[Object], now: float) -> Step[None]:
    """Set condition Ready of those pods that are ready to False, and record an event about each.

    Raises CommandError after all updates have been sent, if one of them failed.
    """
    failed: CommandError | None = None
    for batch in batches([pod for pod in pods if is_true((pod.get("status") or {}).get("conditions"), "Ready")], BATCH):
        commands = [update(PODS, not_ready_pod(pod, now), subresource="status") for pod in batch]
        outcomes = yield from together(commands)
        for pod, command, outcome in zip(batch, commands, outcomes, strict=True):
            if isinstance(outcome, NotFound):
                continue
            yield record(PODS, pod, "Warning", "NodeNotReady", "Node is not ready")
            if not isinstance(outcome, Done):
                failed = CommandError(command, outcome)
    if failed is not None:
        raise failed


MAXIMUM_GRACE_PERIOD = 300.0  # seconds that a pod may be terminating on an evicted node
OLDEST_GRACEFUL_KUBELET = (1, 1, 0)
_VERSION = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:[-+.].*)?")


def deletes_gracefully(kubelet: str) -> bool:
    """Report whether a kubelet of this version ("v1.36.0") deletes pods gracefully; False for an invalid version.

    Kubelets before 1.1.0 do not honor the grace period, so their pods are deleted by force.
    """
    found = _VERSION.fullmatch(kubelet)
    return found is not None and tuple(int(part or 0) for part in found.groups()) >= OLDEST_GRACEFUL_KUBELET


def lost_pod(pod: Object, node: str) -> Object:
    """Return a copy of the pod with status.reason NodeLost, and upstream's message about the unresponsive node."""
    status: Mapping[str, Any] = pod.get("status") or {}
    message = f"Node {node} which was running pod {name_of(pod)} is unresponsive"
    return {**pod, "status": {**status, "reason": "NodeLost", "message": message}}


def is_of_daemon_set(pod: Object) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.kind == "DaemonSet"


def dependencies(pod: Object) -> Sequence[Resource | tuple[Resource, Key]]:
    """Return the objects that a pod's deletion is based on: the pod, its node and the node's Lease.

    The deletion is delayed while the table of one of these objects is stale.
    """
    node = (pod.get("spec") or {}).get("nodeName")
    of_node = ((NODES, node), (LEASES, make_key(LEASE_NAMESPACE, node))) if node else (NODES, LEASES)
    return ((PODS, key_of(pod)), *of_node)


def exceeds_grace_period(pod: Object, elapsed: float) -> bool:
    """Report whether the pod has been terminating for longer than its grace period, or for more than 300 s.

    elapsed: seconds since the eviction of its node.
    """
    return elapsed > _grace_seconds(pod)


def _grace_seconds(pod: Object) -> float:
    grace: float = metadata(pod).get("deletionGracePeriodSeconds") or 0
    return min(grace, MAXIMUM_GRACE_PERIOD)


class DirectEviction:
    """Eviction without taints: deletes the pods of failed nodes.

    It records when each node was evicted, so that pods that are still terminating after their grace period can be
    deleted by force.
    """

    def __init__(self, *, clock: Clock, log: FilteringBoundLogger) -> None:
        self._clock, self._log = clock, log
        self._since: dict[str, tuple[str, float]] = {}  # by node: its uid, and the monotonic time of its eviction

    def cancel(self, node: str) -> None:
        """End the eviction of a node that is ready again or has been deleted. Deleted pods stay deleted."""
        self._since.pop(node, None)

    def evict(self, name: str) -> Step[bool]:
        """Delete the pods of a failed node, except those of DaemonSets (upstream: DeletePods).

        Returns False, and deletes nothing, if the node as fetched from the server is ready. Raises CommandError if a
        write failed; the caller retries.
        """
        outcome = yield from must(get_live(NODES, name), but=(NotFound,))
        if isinstance(outcome, Done):
            node = decode_object(outcome.body)
            if is_true((node.get("status") or {}).get("conditions"), "Ready"):
                return False
            uid = uid_of(node)
        else:
            uid = ""
        pods = yield from pods_of(name)
        if pods:
            yield node_event(name, uid, "DeletingAllPods", f"Deleting all Pods from Node {name}.")
        yield from self._mark_lost(pods, name)
        deletable = [pod for pod in pods if not is_deleting(pod) and not is_of_daemon_set(pod)]
        for pod in deletable:
            message = f"Marking for deletion Pod {name_of(pod)} from Node {name}"
            yield record(PODS, pod, "Normal", "NodeControllerEviction", message)
        commands = [delete(PODS, pod, depends_on=dependencies(pod)) for pod in deletable]
        yield from must_all(commands, but=(NotFound,))
        self._log.info("deleted pods of node", node=name, pods=len(deletable))
        if name not in self._since or self._since[name][0] != uid:
            self._since[name] = uid, self._clock.monotonic()
        return True

    def _mark_lost(self, pods: Sequence[Object], name: str) -> Step[None]:
        commands = [
            update(PODS, lost_pod(pod, name), subresource="status")
            for pod in pods
            if (pod.get("status") or {}).get("reason") != "NodeLost"
        ]
        yield from must_all(commands, but=(NotFound, Conflict))  # Conflict: the pod has changed, or was replaced

    def terminate(self, name: str, facts: NodeFacts, pods: Callable[[], Sequence[Object]]) -> Step[float | None]:
        """Delete by force the pods on an evicted node that have been terminating for too long.

        pods: callback that returns the pods bound to the node.
        Returns the seconds after which the node must be reconciled again; None if no other pod is terminating.

        Upstream: terminatePods.
        """
        uid, since = self._since.get(name, ("", 0.0))
        if uid != facts.uid:
            self._since.pop(name, None)  # the node was replaced between two syncs
            return None
        elapsed = self._clock.monotonic() - since
        terminating = [pod for pod in pods() if is_deleting(pod)]
        overdue = [pod for pod in terminating if exceeds_grace_period(pod, elapsed)]
        for pod in overdue:
            message = (
                f"Pod {key_of(pod)} has exceeded the grace period for deletion after being evicted from Node "
                f'"{name}" and is being force killed'
            )
            yield node_event(name, facts.uid, "TerminatingEvictedPod", message)
        yield from self.force(overdue)
        left = [_grace_seconds(pod) - elapsed for pod in terminating if not exceeds_grace_period(pod, elapsed)]
        if not left:
            self._since.pop(name, None)
            return None
        return max(left) + 0.001  # later by 1 ms, because exceeds_grace_period compares with >

    def force(self, pods: Sequence[Object]) -> Step[None]:
        """Delete these pods at once, with grace period 0."""
        commands = [delete(PODS, pod, grace_seconds=0, depends_on=dependencies(pod)) for pod in pods]
        for pod in pods:
            self._log.info("pod deleted by force", pod=key_of(pod))
        yield from must_all(commands, but=(NotFound,))


def pods_of(node: str) -> Step[list[Object]]:
    """List the pods bound to a node, from the API server and not from the table."""
    found = yield from must_object(list_live(PODS, field_selector=f"spec.nodeName={node}"))
    items: list[Object] = found.get("items") or []
    return items
