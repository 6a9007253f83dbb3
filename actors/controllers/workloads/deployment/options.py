"""Flags of the Deployment controller."""

from __future__ import annotations

from kcm.actors.options import ControllerOptions
from kcm.protocols.late_methods import dataclass
from kcm.runtime.flags.declaration import flag
from kcm.runtime.flags.values import DURATION


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentOptions(ControllerOptions):
    configz_block = "DeploymentController"

    concurrent_syncs: int = flag(
        5,
        "Number of Deployments that are synced concurrently.",
        name="concurrent-deployment-syncs",
        config="ConcurrentDeploymentSyncs",
    )
    sync_period: float = flag(
        30.0,
        "Interval at which every Deployment is synced again.",
        name="deployment-controller-sync-period",
        kind=DURATION,
    )
