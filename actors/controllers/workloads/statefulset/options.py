"""Flags of the StatefulSet controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetOptions(ControllerOptions):
    configz_block = "StatefulSetController"

    concurrent_syncs: int = flag(
        5,
        "Number of StatefulSets that are synced concurrently.",
        name="concurrent-statefulset-syncs",
        config="ConcurrentStatefulSetSyncs",
    )
