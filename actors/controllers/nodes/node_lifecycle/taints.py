"""Taints and labels that node-lifecycle-controller maintains on nodes.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, doNoScheduleTaintingPass,
processTaintBaseEviction, doNoExecuteTaintingPass, reconcileNodeLabels; controller_utils.go, AddOrUpdateTaintOnNode.
Difference: all changes of taints are made in one patch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kcm.actors.reconciliation import Step, get_live, must, patch
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound
from kcm.protocols.nodes import (
    NO_EXECUTE,
    NO_EXECUTE_KEYS,
    NO_SCHEDULE,
    NO_SCHEDULE_KEYS,
    NOT_READY,
    UNREACHABLE,
    NodeFacts,
)
from kcm.protocols.objects import Object, labels_of, resource_version_of
from kcm.protocols.resources import NODES
from kcm.protocols.times import format_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NO_KEYS: frozenset[str] = frozenset()
_NO_EXECUTE_FOR = {"False": frozenset({NOT_READY}), "Unknown": frozenset({UNREACHABLE})}


def wanted_no_execute(node: NodeFacts, *, due: bool, spared: bool) -> frozenset[str]:
    """Return the keys of the NoExecute taints that the node should have now.

    The keys are not-ready or unreachable, by the node's condition Ready. The eviction rate limits only the first taint
    of a node: one taint is replaced by the other as soon as the condition changes.

    due: the eviction queue of the node's zone has released the node.
    spared: evictions are stopped in the node's zone, see Disruption.
    """
    if node.ready is None:
        return node.no_execute
    if spared or node.ready == "True":
        return NO_KEYS
    return _NO_EXECUTE_FOR.get(node.ready, NO_KEYS) if due or node.no_execute else NO_KEYS


def waits_for_eviction(node: NodeFacts) -> bool:
    """Report whether the node's condition requires a NoExecute taint that the node does not have yet."""
    return node.ready in _NO_EXECUTE_FOR and not node.no_execute


def has_taints(node: NodeFacts, no_execute: frozenset[str]) -> bool:
    return node.no_schedule == node.wanted_no_schedule and node.no_execute == no_execute


def taint_patch(node: Object, facts: NodeFacts, no_execute: frozenset[str], now: float) -> Object:
    """Return a patch that adds and removes the taints of this controller, with the resourceVersion as precondition.

    Taints of other controllers are kept in their order.

    facts: derived from this version of the node.
    no_execute: keys of the NoExecute taints that the node should have.
    now: Unix seconds, for the timeAdded of new taints.
    """
    wanted = {NO_SCHEDULE: facts.wanted_no_schedule, NO_EXECUTE: no_execute}
    ours = {NO_SCHEDULE: NO_SCHEDULE_KEYS, NO_EXECUTE: NO_EXECUTE_KEYS}
    kept, present = [], set()
    for taint in (node.get("spec") or {}).get("taints") or ():
        effect, key = taint.get("effect"), taint.get("key")
        if effect in ours and key in ours[effect]:
            if key not in wanted[effect]:
                continue
            present.add((effect, key))
        kept.append(taint)
    stamp = format_time(now)
    for effect, keys in wanted.items():
        new = [key for key in sorted(keys) if (effect, key) not in present]
        kept += [{"key": key, "effect": effect, "timeAdded": stamp} for key in new]
    return {
        "metadata": {"resourceVersion": resource_version_of(node)},
        "spec": {"taints": kept or None},
    }


def format_keys(keys: Iterable[str]) -> str:
    return ",".join(sorted(keys))


# Label → its deprecated name, which is set to the same value.
DEPRECATED_LABELS = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}


def missing_labels(node: Object) -> dict[str, str]:
    """Return the labels beta.kubernetes.io/os and beta.kubernetes.io/arch that must be set on the node.

    They must have the values of the labels kubernetes.io/os and kubernetes.io/arch, which have replaced them.
    """
    labels = labels_of(node)
    return {
        older: labels[newer]
        for newer, older in DEPRECATED_LABELS.items()
        if newer in labels and labels.get(older) != labels[newer]
    }


TRIES = 5  # attempts to patch one node, if patches meet conflicts. Source: controller_utils.go, UpdateTaintBackoff


def sync_taints(
    nodes: Lister,
    name: str,
    wanted: Callable[[NodeFacts], frozenset[str]],
    *,
    clock: Clock,
    log: FilteringBoundLogger,
) -> Step[bool]:
    """Patch the node so that it has the NoSchedule taints for its conditions, and the wanted NoExecute taints.

    A conflict is retried with the live node, five times.

    wanted: callback that returns the keys of the NoExecute taints for the given version of the node.
    Returns True if the node had no NoExecute taint before, and has one now. Raises CommandError if the patch failed.
    """
    for _ in range(TRIES):
        entry = nodes.entry(name)
        if entry is None:
            return False
        facts: NodeFacts = entry.facts
        no_execute = wanted(facts)
        if has_taints(facts, no_execute):
            return False
        command = patch(NODES, name, taint_patch(nodes.object_of(entry), facts, no_execute, clock.now()))
        outcome = yield command
        if isinstance(outcome, Done):
            log.info(
                "node tainted",
                node=name,
                zone=facts.zone,
                no_schedule=format_keys(facts.wanted_no_schedule),
                no_execute=format_keys(no_execute),
            )
            return bool(no_execute) and not facts.no_execute
        if isinstance(outcome, NotFound):
            return False
        if not isinstance(outcome, Conflict):
            raise CommandError(command, outcome)
        # After this the lister returns the fetched version.
        yield from must(get_live(NODES, name), but=(NotFound,))
    raise CommandError(command, outcome)


def sync_labels(nodes: Lister, name: str) -> Step[None]:
    """Copy the labels kubernetes.io/os and kubernetes.io/arch of a node to their deprecated beta names.

    name: name of the node.
    Raises CommandError if the patch failed.
    """
    node = nodes.get(name)
    labels = missing_labels(node) if node is not None else {}
    if labels:
        yield from must(patch(NODES, name, {"metadata": {"labels": labels}}), but=(NotFound,))
