"""Status writes for silent nodes, which are nodes without a heartbeat for their grace period.

The conditions that the kubelet of such a node maintains are set to Unknown.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, tryUpdateNodeHealth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcm.actors.controllers.nodes.node_lifecycle.events import describe, node_record
from kcm.actors.controllers.nodes.node_lifecycle.health import NodeHealths
from kcm.actors.reconciliation import Step, batches, get_live, together, update
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import Object, decode_object, metadata
from kcm.protocols.resources import NODES
from kcm.protocols.times import format_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# NetworkUnavailable is not one of them: the network plugin or the route controller maintains it.
KUBELET_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def silent_node(node: Object, now: float) -> Object:
    """Return a copy of the node in which the conditions that a kubelet maintains are Unknown.

    Missing conditions are added. now: Unix seconds, for lastTransitionTime.
    """
    status = node.get("status") or {}
    conditions = [dict(condition) for condition in status.get("conditions") or ()]
    stamp = format_time(now)
    for type in KUBELET_CONDITIONS:
        if find_condition(conditions, type) is None:
            conditions.append(
                {
                    "type": type,
                    "status": "Unknown",
                    "lastHeartbeatTime": metadata(node).get("creationTimestamp"),
                    "lastTransitionTime": stamp,
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                }
            )
    for condition in conditions:
        if condition.get("type") in KUBELET_CONDITIONS and condition.get("status") != "Unknown":
            condition.update(
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                lastTransitionTime=stamp,
            )
    return {**node, "status": {**status, "conditions": conditions}}


BATCH = 50  # status updates sent together; each node is observed again before its update
TRIES = 5  # attempts to update one node, if updates meet conflicts. Source: scheduler.NodeHealthUpdateRetry


def mark_unknown(
    silent: Sequence[str], *, nodes: Lister, healths: NodeHealths, clock: Clock, log: FilteringBoundLogger
) -> Step[set[str]]:
    """Set the conditions that a kubelet maintains to Unknown on nodes without recent heartbeats.

    silent: names of the nodes.
    Returns the names of the nodes that could not be updated. The rest of the pass must take no decision about them.
    """
    unclear: set[str] = set()
    for names in batches(silent, BATCH):
        pending = list(names)
        for _ in range(TRIES):
            pending = [name for name in pending if healths.is_still_silent(name)]
            pending = yield from _write(pending, unclear, nodes=nodes, healths=healths, clock=clock, log=log)
            if not pending:
                break
        unclear.update(pending)
    return unclear


def _write(
    names: Sequence[str],
    unclear: set[str],
    *,
    nodes: Lister,
    healths: NodeHealths,
    clock: Clock,
    log: FilteringBoundLogger,
) -> Step[list[str]]:
    """Update the status of these nodes, and add the names of nodes whose update failed to `unclear`.

    Returns the names of the nodes whose update met a conflict. Their live versions have been fetched, so that the
    update can be retried.
    """
    entries = [entry for name in names if (entry := nodes.entry(name)) is not None]
    wall = clock.now()
    commands = [update(NODES, silent_node(nodes.object_of(entry), wall), subresource="status") for entry in entries]
    changed = []
    for entry, outcome in zip(entries, (yield from together(commands)), strict=True):
        name, before = entry.key, entry.facts
        match outcome:
            case Done(body):
                seconds = healths.record_unknown(name, node_facts(decode_object(body)))
                log.info("node is silent", node=name, zone=before.zone, seconds=round(seconds, 3))
                if before.ready == "True":
                    yield node_record(name, before.uid, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            case Conflict():
                changed.append(name)
            case NotFound():
                pass  # the watch will report its deletion
            case _:
                unclear.add(name)
                log.warning("node status not written", node=name, error=describe(outcome))
    fetched = yield from together([get_live(NODES, name) for name in changed])
    unclear.update(name for name, outcome in zip(changed, fetched, strict=True) if not isinstance(outcome, Done))
    return [name for name in changed if name not in unclear]
