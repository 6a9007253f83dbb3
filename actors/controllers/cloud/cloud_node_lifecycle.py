"""Cloud node lifecycle controller: deletes nodes without an instance in the cloud, and taints nodes that are shut down.

In: nodes; the state of their instances in the cloud. Out: deletions, the taint
node.cloudprovider.kubernetes.io/shutdown, events. Key: a node's name. While a node is not ready, the cloud is called
for it every --node-monitor-period. The taint is removed from a ready node without a call to the cloud.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go.
Differences: each node has its own timer, so that a slow call for one node does not delay the others; the result of a
call is used only if the node is still not ready afterwards; and the uid is a precondition of the deletion, so that a
node that was registered again under the same name is not deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from kcm.actors.reconciliation import (
    Because,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    delete,
    itself,
    must,
    patch,
    record,
)
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
EPSILON = 0.001  # seconds: tolerated rounding error of float sums


class CloudNodeLifecycleReconciler:
    """Reconciler of nodes that are not ready, by the state of their instances in the cloud. Key: name of the node."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger, period: float) -> None:
        """Create the reconciler. period: seconds between two calls to the cloud for a node."""
        self._nodes, self._clock, self._log, self._period = tables[NODES], clock, log, period
        self._called: dict[Key, float] = {}  # by node that is not ready, when the cloud was last called (monotonic)
        self._can_shut_down = True

    def reconcile(self, key: Key) -> Reconciliation:
        """Check the instance of a node that is not ready, or remove the shutdown taint from a ready node."""
        entry = self._nodes.entry(key)
        if entry is None:
            self._called.pop(key, None)
            return None
        if entry.facts.ready == "True":
            self._called.pop(key, None)
            yield from self._keep_taint(entry, shut_down=False)
            return None
        left = self._called.get(key, float("-inf")) + self._period - self._clock.monotonic()
        if left > EPSILON:
            yield Because(f"is not ready: asks the cloud for its instance again in {left:.0f} s")
            return RequeueAfter(left)
        self._called[key] = self._clock.monotonic()
        yield from self._check_instance(entry)
        return RequeueAfter(self._period)

    def _check_instance(self, checked: Entry) -> Step[None]:
        """Request the state of a not-ready node's instance from the cloud, and delete or taint the node accordingly.

        The node is deleted if its instance does not exist, and tainted if its instance is shut down.

        checked: entry of the node before the call.
        """
        exists = self._result_of((yield InstanceExists(checked.raw)), checked, "InstanceExists")
        if exists is None:
            return
        if not exists:
            entry = self._still_not_ready(checked)
            if entry is not None:
                yield Because("is not ready, and its instance does not exist in the cloud: deletes it")
                yield from self._delete(entry)
            return
        yield Because("is not ready, and its instance exists in the cloud")
        if self._can_shut_down:
            outcome = yield InstanceIsShutDown(checked.raw)
            if isinstance(outcome, Invalid) and outcome.code == NOT_SUPPORTED:
                self._can_shut_down = False
            elif self._result_of(outcome, checked, "InstanceIsShutDown"):
                entry = self._still_not_ready(checked)
                if entry is not None:
                    yield from self._keep_taint(entry, shut_down=True)

    def _result_of(self, outcome: Outcome, checked: Entry, call: str) -> bool | None:
        """Return the boolean result of a call to the cloud; None if the call failed, which is logged.

        call: name of the call, for the log line.
        """
        if isinstance(outcome, Done):
            return bool(orjson.loads(outcome.body))
        self._log.warning("call to the cloud failed", node=checked.key, call=call, error=outcome.message)
        return None

    def _still_not_ready(self, checked: Entry) -> Entry | None:
        entry = self._nodes.entry(checked.key)
        return entry if entry is not None and entry.uid == checked.uid and entry.facts.ready != "True" else None

    def _delete(self, entry: Entry) -> Step[None]:
        node, name = self._nodes.object_of(entry), entry.key
        self._log.info("deleting node since it is no longer present in cloud provider", node=name, uid=entry.uid)
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
        yield Because(
            f"its instance is {'shut down: adds' if shut_down else 'not shut down: removes'} the taint {SHUTDOWN}"
        )
        body = shutdown_patch(node, shut_down=shut_down, now=self._clock.now())
        outcome = yield from must(patch(NODES, entry.key, body), but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("shutdown taint set" if shut_down else "shutdown taint removed", node=entry.key)


def has_shutdown_taint(node: Object) -> bool:
    return any(_is_shutdown(taint) for taint in (node.get("spec") or {}).get("taints") or ())


def shutdown_patch(node: Object, *, shut_down: bool, now: float) -> Object:
    """Return a patch that adds or removes the shutdown taint, with the resourceVersion as precondition.

    shut_down: whether the node should have the taint.
    now: Unix seconds, for the timeAdded of the taint.
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
    never_blocks=True,
    client="node-controller",
    queues=(Queue(watches=(Watch(NODES, to=itself),), concurrency=64, terminal=()),),
    build=_build,
    enabled_if=lambda options: has_provider(options.cloud.cloud_provider),
    needs="--cloud-provider, other than 'external'",
)
