"""Flags of the DaemonSet controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag


class DaemonSetOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "DaemonSetController"

    concurrent_syncs: int = flag(
        2,
        "Number of DaemonSets that are synced concurrently.",
        name="concurrent-daemonset-syncs",
        config="ConcurrentDaemonSetSyncs",
    )
