"""Flags of the resourcequota controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


class ResourceQuotaOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "ResourceQuotaController"

    concurrent_syncs: int = flag(
        5,
        "Number of ResourceQuotas that are synced concurrently.",
        name="concurrent-resource-quota-syncs",
        config="ConcurrentResourceQuotaSyncs",
    )
    sync_period: float = flag(
        300.0,
        "Interval at which the usage of every ResourceQuota is computed again.",
        name="resource-quota-sync-period",
        kind=DURATION,
        config="ResourceQuotaSyncPeriod",
    )
