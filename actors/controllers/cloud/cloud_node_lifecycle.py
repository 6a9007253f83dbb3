"""cloud-node-lifecycle-controller: deletes nodes whose machine is gone, and taints those whose machine is switched off.

In: nodes; what the cloud says of the machine of one that is not ready. Out: deletions, the taint
node.cloudprovider.kubernetes.io/shutdown, events. Key: a node's name. A node that is not ready is asked for every
--node-monitor-period; one that is ready loses the taint, and the cloud is not asked.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go.
Differences: each node has its own time, so that a slow answer about one holds up no other; what the cloud says counts
only if the node is still not ready by then; and a node is deleted only as the one that was asked for (its uid), not as
another that has registered under its name since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from actors.reconciliation import Reconciliation, RequeueAfter, Step, Watch, delete, itself, must, patch, record
from actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from protocols.messages.cloud import NOT_SUPPORTED, InstanceExists, InstanceIsShutDown
from protocols.messages.outcomes import Conflict, Done, Invalid, NotFound, Outcome
from protocols.nodes import NO_SCHEDULE
from protocols.objects import Key, Object, resource_version_of
from protocols.resources import NODES
from protocols.times import format_time
from runtime.cloud.loading import has_provider
from runtime.scheduling.clock import Clock
from runtime.tables.overlay import Tables
from runtime.tables.table import Entry

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
MOMENT = 0.001  # seconds: a sum of floats may fall just short of the time that it means


class CloudNodeLifecycleReconciler:
    """See the module. period: seconds between two questions about a node."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, period: float) -> None:
        self._nodes, self._clock, self._log, self._period = tables[NODES], clock, log, period
        self._asked: dict[Key, float] = {}  # nodes that are not ready, and when the cloud was asked last, monotonic
        self._can_shut_down = True

    def reconcile(self, key: Key) -> Reconciliation:
        entry = self._nodes.entry(key)
        if entry is None:
            self._asked.pop(key, None)
            return None
        if entry.facts.ready == "True":
            self._asked.pop(key, None)
            yield from self._keep_taint(entry, shut_down=False)
            return None
        left = self._asked.get(key, float("-inf")) + self._period - self._clock.monotonic()
        if left > MOMENT:
            return RequeueAfter(left)
        self._asked[key] = self._clock.monotonic()
        yield from self._look_after(entry)
        return RequeueAfter(self._period)

    def _look_after(self, asked: Entry) -> Step[None]:
        """asked: the node, not ready."""
        exists = self._understood((yield InstanceExists(asked.raw)), asked, "whether it exists")
        if exists is None:
            return
        if not exists:
            entry = self._still_not_ready(asked)
            if entry is not None:
                yield from self._delete(entry)
            return
        if self._can_shut_down:
            outcome = yield InstanceIsShutDown(asked.raw)
            if isinstance(outcome, Invalid) and outcome.code == NOT_SUPPORTED:
                self._can_shut_down = False
            elif self._understood(outcome, asked, "whether it is shut down"):
                entry = self._still_not_ready(asked)
                if entry is not None:
                    yield from self._keep_taint(entry, shut_down=True)

    def _understood(self, outcome: Outcome, asked: Entry, question: str) -> bool | None:
        """Yes, no, or None if the cloud did not say."""
        if isinstance(outcome, Done):
            return bool(orjson.loads(outcome.body))
        self._log.warning("cloud did not answer", node=asked.key, question=question, error=outcome.message)
        return None

    def _still_not_ready(self, asked: Entry) -> Entry | None:
        entry = self._nodes.entry(asked.key)
        return entry if entry is not None and entry.uid == asked.uid and entry.facts.ready != "True" else None

    def _delete(self, entry: Entry) -> Step[None]:
        node, name = self._nodes.object_of(entry), entry.key
        self._log.info("deleting node, it is not in the cloud", node=name, uid=entry.uid)
        message = f"Deleting node {name} because it does not exist in the cloud provider"
        yield record(NODES, node, "Normal", "DeletingNode", message)
        outcome = yield delete(NODES, name, uid=entry.uid)
        if not isinstance(outcome, Done | NotFound | Conflict):
            yield record(
                NODES, node, "Warning", "DeletingNodeFailed", f"Failed deleting node {name}: {outcome.message}"
            )

    def _keep_taint(self, entry: Entry, *, shut_down: bool) -> Step[None]:
        node = self._nodes.object_of(entry)
        if has_shutdown_taint(node) == shut_down:
            return
        body = shutdown_patch(node, shut_down=shut_down, now=self._clock.now())
        outcome = yield from must(patch(NODES, entry.key, body), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("shutdown taint set" if shut_down else "shutdown taint removed", node=entry.key)


def has_shutdown_taint(node: Object) -> bool:
    return any(_is_shutdown(taint) for taint in (node.get("spec") or {}).get("taints") or ())


def shutdown_patch(node: Object, *, shut_down: bool, now: float) -> Object:
    """A patch that sets or removes the taint, if the node is still the version that it was made of. now: Unix seconds,
    its timeAdded.
    """
    taints = [taint for taint in (node.get("spec") or {}).get("taints") or () if not _is_shutdown(taint)]
    if shut_down:
        taints.append({"key": SHUTDOWN, "effect": NO_SCHEDULE, "timeAdded": format_time(now)})
    return {"metadata": {"resourceVersion": resource_version_of(node)}, "spec": {"taints": taints or None}}


def _is_shutdown(taint: Object) -> bool:
    return taint.get("key") == SHUTDOWN and taint.get("effect") == NO_SCHEDULE


def _build(context: ControllerContext) -> CloudNodeLifecycleReconciler:
    return CloudNodeLifecycleReconciler(
        tables=context.tables,
        clock=context.clock,
        log=context.log,
        period=context.options.cloud.node_monitor_period,
    )


SPEC = ControllerSpec(
    name="cloud-node-lifecycle-controller",
    aliases=("cloud-node-lifecycle",),
    client="node-controller",
    queues=(Queue(watches=(Watch(NODES, to=itself),), concurrency=lambda _options: 64),),
    build=_build,
    enabled_if=lambda options: has_provider(options.cloud.cloud_provider),
)
