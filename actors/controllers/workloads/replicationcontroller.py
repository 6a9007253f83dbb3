"""ReplicationController controller: the ReplicaSet controller for ReplicationControllers.

Source: kubernetes v1.36 pkg/controller/replication.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.workloads.replicaset.kind import ReplicaKind, watches
from kcm.actors.controllers.workloads.replicaset.spec import build
from kcm.actors.options import ControllerOptions
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.resources import REPLICATION_CONTROLLERS
from kcm.protocols.selectors import LabelSelector, map_selector
from kcm.runtime.flags.declaration import flag


class ReplicationControllerOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "ReplicationController"

    concurrent_syncs: int = flag(
        5,
        "Number of ReplicationControllers that are synced concurrently.",
        name="concurrent-rc-syncs",
        config="ConcurrentRCSyncs",
    )


def _selector(labels: Mapping[str, Any]) -> LabelSelector:
    """Return the selector. Raises ValueError for a value that is not a string: with it, every pod would be released."""
    for key, value in labels.items():
        if not isinstance(value, str):
            raise ValueError(f"spec.selector is a map of strings, got {value!r} for {key}")
    return map_selector(labels)


REPLICATION_CONTROLLER = ReplicaKind(
    resource=REPLICATION_CONTROLLERS, selector_of=_selector, counts_terminating=False, ranks_by_siblings=False
)

SPEC = ControllerSpec(
    name="replicationcontroller-controller",
    aliases=("replicationcontroller", "replication"),
    never_blocks=True,
    client="replication-controller",
    component="replication-controller",
    queues=(
        Queue(
            "replicationmanager",
            watches=watches(REPLICATION_CONTROLLER),
            concurrency=lambda options: options[ReplicationControllerOptions].concurrent_syncs,
            terminal=(),
        ),
    ),
    build=lambda context: build(context, REPLICATION_CONTROLLER),
    options=ReplicationControllerOptions,
)
