"""cloud-node-lifecycle-controller: deletes nodes whose machine is gone, and taints those whose machine is switched off.

In: nodes; what the cloud returns about the machine of a node that is not ready. Out: deletions, the taint
node.cloudprovider.kubernetes.io/shutdown, events. Key: a node's name. The cloud is called for a node that is
not ready every --node-monitor-period; a ready one loses the taint, without a call.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go.
Differences: each node has its own period, so that a slow call for one delays no other; the cloud's answer counts only
if the node is still not ready by then; and the uid is a precondition of the deletion, so that no other node that was
registered under the name since is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from kcm.actors.reconciliation import Reconciliation, RequeueAfter, Step, Watch, delete, itself, must, patch, record
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.cloud import NOT_SUPPORTED, InstanceExists, InstanceIsShutDown
from kcm.protocols.messages.outcomes import Conflict, Done, Invalid, NotFound, Outcome
from kcm.protocols.nodes import NO_SCHEDULE
from kcm.protocols.objects import Key, Object, resource_version_of
from kcm.protocols.resources import NODES
from kcm.protocols.times import format_time
from kcm.runtime.cloud.providers import has_provider
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
MOMENT = 0.001  # seconds: a sum of floats may fall just short of the time that it means


class CloudNodeLifecycleReconciler:
    """Key: a node's name. period: seconds between two calls for a node."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, period: float) -> None:
        self._nodes, self._clock, self._log, self._period = tables[NODES], clock, log, period
        self._asked: dict[Key, float] = {}  # nodes that are not ready: when the cloud was last called, monotonic
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
        """asked: the node, which is not ready."""
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
        """The cloud's answer; None if the call failed."""
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
        outcome = yield delete(NODES, entry, depends_on=((NODES, name),))
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
    """A patch that sets or removes the taint, with the resourceVersion as precondition. now: its timeAdded."""
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
    never_blocks=True,
    client="node-controller",
    queues=(Queue(watches=(Watch(NODES, to=itself),), concurrency=64, terminal=()),),
    build=_build,
    enabled_if=lambda options: has_provider(options.cloud.cloud_provider),
    needs="--cloud-provider, other than 'external'",
)
