"""Flags of the StatefulSet controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag


class StatefulSetOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "StatefulSetController"

    concurrent_syncs: int = flag(
        5,
        "Number of StatefulSets that are synced concurrently.",
        name="concurrent-statefulset-syncs",
        config="ConcurrentStatefulSetSyncs",
    )
