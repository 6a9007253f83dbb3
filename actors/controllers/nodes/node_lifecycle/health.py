"""Whether a node still gives signs of life: pure decisions, by our own monotonic clock.

A sign of life is a change of the condition Ready's heartbeat or of the Lease's renewTime. Those times are only compared
with their earlier values, so that no clock but ours counts, and the wall clock may be set without harm.

Source: kubernetes v1.36 pkg/controller/nodelifecycle/node_lifecycle_controller.go, tryUpdateNodeHealth. Differences:
- The grace period of a node that never posted a status begins when we first saw it, not at its creationTimestamp.
- A Lease that is renewed with an earlier time than before (its holder's clock was set back) is a sign of life too.
- A node that is registered again under the same name starts over.
- Silence counts only while the watch is fresh (`heard` below); after a long silence of the server signs_of_life.py
  gives every node its whole grace period again.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from kcm.protocols.late_methods import dataclass
from kcm.protocols.nodes import NodeFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """The last observation of a node. Times are monotonic seconds.

    probed: the last sign of life. changed: when we saw Ready change. ready, heartbeat, transitioned: as in
    NodeFacts. renewed: of its Lease.
    """

    uid: str
    probed: float
    changed: float
    ready: str | None
    heartbeat: str | None
    transitioned: str | None
    renewed: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds of silence after which a node is given up: one that has a condition Ready, and one that never had."""

    grace: float
    startup_grace: float

    def of(self, node: NodeFacts) -> float:
        return self.startup_grace if node.ready is None else self.grace

    @property
    def hearing(self) -> float:
        """Seconds without an event or bookmark for which a table still counts as fresh.

        A quarter of the grace period, in which a kubelet renews its Lease about once: a table that was silent for no
        longer has not missed enough renewals to take a living node for a silent one.
        """
        return min(10.0, self.grace / 4)


class Verdict(Enum):
    """SILENT: given up. DOUBTFUL: it would be, but the table may have missed its signs of life."""

    ALIVE = "alive"
    SILENT = "silent"
    DOUBTFUL = "doubtful"


def observe(before: NodeHealth | None, node: NodeFacts, renewed: float | None, now: float) -> NodeHealth:
    """The health after an observation; the same object if nothing is new. renewed: of its Lease, None without one."""
    if before is None or before.uid != node.uid or (before.ready is None and node.ready is not None):
        return NodeHealth(
            uid=node.uid,
            probed=now,
            changed=now,
            ready=node.ready,
            heartbeat=node.heartbeat,
            transitioned=node.transitioned,
            renewed=renewed,
        )
    spoke = node.ready is not None and node.heartbeat != before.heartbeat
    renews = renewed is not None and renewed != before.renewed
    if not spoke and not renews and node.ready == before.ready:
        return before
    return replace(
        before,
        probed=now if spoke or renews else before.probed,
        changed=now if spoke and node.transitioned != before.transitioned else before.changed,
        ready=node.ready,
        heartbeat=node.heartbeat,
        transitioned=node.transitioned,
        renewed=renewed if renews else before.renewed,
    )


def is_over(elapsed: float, period: float) -> bool:
    """Whether more seconds than the period have passed; rounding errors do not count."""
    return elapsed - period > 1e-6


def verdict(health: NodeHealth, node: NodeFacts, *, now: float, patience: Patience, heard: float | None) -> Verdict:
    """heard: when the table that would show this node's next sign of life last received anything from the server."""
    if not is_over(now - health.probed, patience.of(node)):
        return Verdict.ALIVE
    return Verdict.SILENT if heard is not None and now - heard <= patience.hearing else Verdict.DOUBTFUL


def taken_for_silent(health: NodeHealth, written: NodeFacts, now: float) -> NodeHealth:
    """After its conditions were set to Unknown. written: the node as it is then."""
    return replace(
        health, changed=now, ready=written.ready, heartbeat=written.heartbeat, transitioned=written.transitioned
    )
