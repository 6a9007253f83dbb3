"""ttl-controller: annotates each node with how long its kubelet may cache Secrets and ConfigMaps.

In: nodes. Out: patches of their annotation node.alpha.kubernetes.io/ttl, in seconds. Key: a node's name. The
larger the cluster, the longer; when it outgrows a step, a node is patched at its own next change, so that not all are
written at once.

Source: kubernetes v1.36 pkg/controller/ttl/ttl_controller.go.
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.actors.reconciliation import Reconciliation, Watch, itself, must, patch
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.integers import parse_int
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Key, annotations_of
from kcm.protocols.resources import NODES
from kcm.runtime.tables.tables import Tables

ANNOTATION = "node.alpha.kubernetes.io/ttl"


class Step(NamedTuple):
    """From `least` to `most` nodes it is this many seconds. Steps overlap, so that the value does not flap."""

    least: int
    most: float
    seconds: int


STEPS = (
    Step(0, 100, 0),
    Step(90, 500, 15),
    Step(450, 1000, 30),
    Step(900, 2000, 60),
    Step(1800, float("inf"), 300),
)


def step_for(nodes: int, *, current: int) -> int:
    """The index in STEPS for so many nodes. current: the index until now."""
    step = current
    while nodes > STEPS[step].most:
        step += 1
    while nodes < STEPS[step].least:
        step -= 1
    return step


class TtlReconciler:
    """Key: a node's name. It remembers the step that the cluster is in."""

    def __init__(self, *, tables: Tables) -> None:
        self._nodes = tables[NODES]
        self._step = 0

    def reconcile(self, key: Key) -> Reconciliation:
        self._step = step_for(len(self._nodes.entries()), current=self._step)
        node = self._nodes.get(key)
        if node is None:
            return None
        seconds = STEPS[self._step].seconds
        current = annotations_of(node).get(ANNOTATION, "")
        if parse_int(current) != seconds:
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
