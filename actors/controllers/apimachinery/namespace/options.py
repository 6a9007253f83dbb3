"""Flags of the namespace controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


class NamespaceOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "NamespaceController"

    concurrent_syncs: int = flag(
        10,
        "Number of namespaces that are synced concurrently.",
        name="concurrent-namespace-syncs",
        config="ConcurrentNamespaceSyncs",
    )
    sync_period: float = flag(
        300.0,
        "Interval at which every namespace is synced again.",
        name="namespace-sync-period",
        kind=DURATION,
        config="NamespaceSyncPeriod",
    )
