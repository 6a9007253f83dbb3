"""Flags of the ReplicaSet controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag


class ReplicaSetOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "ReplicaSetController"

    concurrent_syncs: int = flag(
        5,
        "Number of ReplicaSets that are synced concurrently.",
        name="concurrent-replicaset-syncs",
        config="ConcurrentRSSyncs",
    )
