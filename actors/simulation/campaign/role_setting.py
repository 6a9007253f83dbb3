"""The setting of seeded runs about ClusterRoles that others give their rules to."""

from __future__ import annotations

from kcm.actors.controllers.identity import clusterrole_aggregation
from kcm.actors.simulation.campaign.setting import Setting

ROLES_TOO = Setting(name="roles", controllers=(clusterrole_aggregation.SPEC,))
