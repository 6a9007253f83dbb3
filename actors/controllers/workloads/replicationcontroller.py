"""replicationcontroller-controller: the ReplicaSet controller, for ReplicationControllers.

Source: kubernetes v1.36 pkg/controller/replication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.controllers.workloads.replicaset import ReplicaKind
from actors.options import ControllerOptions
from protocols.resources import REPLICATION_CONTROLLERS
from protocols.selectors import LabelSelector, map_selector
from runtime.flags.declaration import flag


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationControllerOptions(ControllerOptions):
    configz_block = "ReplicationController"

    concurrent_syncs: int = flag(
        5, "ReplicationControllers synced at once.", name="concurrent-rc-syncs", config="ConcurrentRCSyncs"
    )


def _selector(labels: Mapping[str, Any]) -> LabelSelector:
    """Raises ValueError on a value that is no text: it would match nothing, and let go of every pod."""
    for key, value in labels.items():
        if not isinstance(value, str):
            raise ValueError(f"spec.selector is a map of strings, got {value!r} for {key}")
    return map_selector(labels)


REPLICATION_CONTROLLER = ReplicaKind(
    resource=REPLICATION_CONTROLLERS, selector_of=_selector, counts_terminating=False, ranks_by_siblings=False
)
