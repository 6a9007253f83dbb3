"""Flags of the Deployment controller."""

from __future__ import annotations

from actors.options import ControllerOptions
from protocols.late_methods import dataclass
from runtime.flags.declaration import flag
from runtime.flags.values import DURATION


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentOptions(ControllerOptions):
    configz_block = "DeploymentController"

    concurrent_syncs: int = flag(
        5, "Deployments synced at once.", name="concurrent-deployment-syncs", config="ConcurrentDeploymentSyncs"
    )
    sync_period: float = flag(
        30.0,
        "Every Deployment is looked at again after this.",
        name="deployment-controller-sync-period",
        kind=DURATION,
    )
