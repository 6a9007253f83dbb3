"""Which of node-lifecycle's taints a node should have: pure.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, doNoScheduleTaintingPass,
processTaintBaseEviction, doNoExecuteTaintingPass; controller_utils.go, AddOrUpdateTaintOnNode. Difference: all
changes go in one patch.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.protocols.nodes import (
    NO_EXECUTE,
    NO_EXECUTE_KEYS,
    NO_SCHEDULE,
    NO_SCHEDULE_KEYS,
    NOT_READY,
    UNREACHABLE,
    NodeFacts,
)
from kcm.protocols.objects import Object, resource_version_of
from kcm.protocols.times import format_time

NOTHING: frozenset[str] = frozenset()
_NO_EXECUTE_FOR = {"False": frozenset({NOT_READY}), "Unknown": frozenset({UNREACHABLE})}


def wanted_no_execute(node: NodeFacts, *, due: bool, spared: bool) -> frozenset[str]:
    """Keys of the NoExecute taints that the node should have now.

    due: its zone's queue has let it through. spared: its zone is not evicted, see Disruption. A node that has one of
    the two gets the other as soon as its condition asks for it: only the first taint waits for its turn.
    """
    if node.ready is None:
        return node.no_execute
    if spared or node.ready == "True":
        return NOTHING
    return _NO_EXECUTE_FOR.get(node.ready, NOTHING) if due or node.no_execute else NOTHING


def waits_for_eviction(node: NodeFacts) -> bool:
    """It should be tainted NoExecute, and is not."""
    return node.ready in _NO_EXECUTE_FOR and not node.no_execute


def taints_are_right(node: NodeFacts, no_execute: frozenset[str]) -> bool:
    return node.no_schedule == node.wanted_no_schedule and node.no_execute == no_execute


def taint_patch(node: Object, facts: NodeFacts, no_execute: frozenset[str], now: float) -> Object:
    """A patch that sets and removes our taints; the resourceVersion is its precondition.

    facts: of this very object. now: Unix seconds, the timeAdded of new taints. Other taints keep their places.
    """
    wanted = {NO_SCHEDULE: facts.wanted_no_schedule, NO_EXECUTE: no_execute}
    ours = {NO_SCHEDULE: NO_SCHEDULE_KEYS, NO_EXECUTE: NO_EXECUTE_KEYS}
    kept, there = [], set()
    for taint in (node.get("spec") or {}).get("taints") or ():
        effect, key = taint.get("effect"), taint.get("key")
        if effect in ours and key in ours[effect]:
            if key not in wanted[effect]:
                continue
            there.add((effect, key))
        kept.append(taint)
    stamp = format_time(now)
    for effect, keys in wanted.items():
        new = [key for key in sorted(keys) if (effect, key) not in there]
        kept += [{"key": key, "effect": effect, "timeAdded": stamp} for key in new]
    return {
        "metadata": {"resourceVersion": resource_version_of(node)},
        "spec": {"taints": kept or None},
    }


def described(keys: Iterable[str]) -> str:
    """For a line in the log."""
    return ",".join(sorted(keys))
