"""Flags of the DaemonSet controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSetOptions(ControllerOptions):
    configz_block = "DaemonSetController"

    concurrent_syncs: int = flag(
        2,
        "Number of DaemonSets that are synced concurrently.",
        name="concurrent-daemonset-syncs",
        config="ConcurrentDaemonSetSyncs",
    )
