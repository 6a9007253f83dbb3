"""Steps that keep one node's taints and labels, around the pure decisions of taints.py and labels.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcm.actors.controllers.nodes.node_lifecycle.labels import missing_labels
from kcm.actors.controllers.nodes.node_lifecycle.taints import described, taint_patch, taints_are_right
from kcm.actors.reconciliation import Step, get_live, must, patch
from kcm.protocols.messages.outcomes import CommandError, Conflict, Done, NotFound
from kcm.protocols.nodes import NodeFacts
from kcm.protocols.resources import NODES
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import Lister

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

TRIES = 5  # of one patch, after conflicts. Source: controller_utils.go, UpdateTaintBackoff


def keep_taints(
    nodes: Lister,
    name: str,
    wanted: Callable[[NodeFacts], frozenset[str]],
    *,
    clock: Clock,
    log: FilteringBoundLogger,
) -> Step[bool]:
    """Patch until the node has the NoSchedule taints that its conditions ask for, and the NoExecute taints wanted.

    wanted: their keys, for the node as it is. Returns whether it got its first NoExecute taint. Raises CommandError.
    """
    for _ in range(TRIES):
        entry = nodes.entry(name)
        if entry is None:
            return False
        facts: NodeFacts = entry.facts
        no_execute = wanted(facts)
        if taints_are_right(facts, no_execute):
            return False
        command = patch(NODES, name, taint_patch(nodes.object_of(entry), facts, no_execute, clock.now()))
        outcome = yield command
        if isinstance(outcome, Done):
            log.info(
                "node tainted",
                node=name,
                zone=facts.zone,
                no_schedule=described(facts.wanted_no_schedule),
                no_execute=described(no_execute),
            )
            return bool(no_execute) and not facts.no_execute
        if isinstance(outcome, NotFound):
            return False
        if not isinstance(outcome, Conflict):
            raise CommandError(command, outcome)
        # The lister shows the fetched node from now on.
        yield from must(get_live(NODES, name), but=(NotFound,))
    raise CommandError(command, outcome)


def keep_labels(nodes: Lister, name: str) -> Step[None]:
    """Copy labels to their older names. Raises CommandError."""
    node = nodes.get(name)
    labels = missing_labels(node) if node is not None else {}
    if labels:
        yield from must(patch(NODES, name, {"metadata": {"labels": labels}}), but=(NotFound,))
