"""TTL controller: annotates each node with the time for which its kubelet may cache Secrets and ConfigMaps.

In: nodes. Out: patches of their annotation node.alpha.kubernetes.io/ttl, in seconds. Key: the name of a node.

The TTL grows with the number of nodes. When the cluster grows into the next range, each node is patched at its own next
change, so that not all nodes are written at once.

Source: kubernetes v1.36 pkg/controller/ttl/ttl_controller.go.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.reconciliation import Because, Reconciliation, Watch, itself, must, patch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.integers import counted, parse_int
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Key, annotations_of
from kcm.protocols.resources import NODES
from kcm.runtime.tables.tables import Tables

ANNOTATION = "node.alpha.kubernetes.io/ttl"


class TtlBoundary(NamedTuple):
    """Range of cluster sizes that share one TTL (upstream: ttlBoundary).

    Adjacent ranges overlap, so that adding and removing one node does not switch the TTL back and forth.
    """

    size_min: int  # number of nodes
    size_max: float
    ttl_seconds: int


TTL_BOUNDARIES = (
    TtlBoundary(0, 100, 0),
    TtlBoundary(90, 500, 15),
    TtlBoundary(450, 1000, 30),
    TtlBoundary(900, 2000, 60),
    TtlBoundary(1800, float("inf"), 300),
)


def boundary_for(nodes: int, *, current: int) -> int:
    """Return the index in TTL_BOUNDARIES of the range to use for a cluster with this number of nodes.

    current: index of the range in use. It is returned again as long as its range contains the number.
    """
    boundary = current
    while nodes > TTL_BOUNDARIES[boundary].size_max:
        boundary += 1
    while nodes < TTL_BOUNDARIES[boundary].size_min:
        boundary -= 1
    return boundary


class TtlReconciler:
    """Reconciler of the TTL annotation of nodes. It records which TTL range the cluster is in."""

    def __init__(self, *, tables: Tables) -> None:
        self._nodes = tables[NODES]
        self._boundary = 0

    def reconcile(self, key: Key) -> Reconciliation:
        """Patch the TTL annotation of a node if it differs from the cluster's TTL. Source: updateNodeIfNeeded."""
        self._boundary = boundary_for(len(self._nodes.entries()), current=self._boundary)
        node = self._nodes.get(key)
        if node is None:
            return None
        seconds = TTL_BOUNDARIES[self._boundary].ttl_seconds
        current = annotations_of(node).get(ANNOTATION, "")
        if parse_int(current) != seconds:
            count = len(self._nodes.entries())
            yield Because(f"{counted(count, 'node')}: kubelets cache Secrets and ConfigMaps for {seconds} s")
            body = {"metadata": {"annotations": {ANNOTATION: str(seconds)}}}
            yield from must(patch(NODES, key, body), but=(NotFound,))
        return None


SPEC = ControllerSpec(
    name="ttl-controller",
    aliases=("ttl",),
    never_blocks=True,
    queues=(Queue("ttlcontroller", watches=(Watch(NODES, to=itself),), terminal=()),),
    build=lambda context: TtlReconciler(tables=context.tables),
)
