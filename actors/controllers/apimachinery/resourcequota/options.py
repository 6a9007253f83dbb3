"""Flags of the resourcequota controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceQuotaOptions(ControllerOptions):
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
