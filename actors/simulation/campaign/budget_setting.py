"""The setting of seeded runs about disruption budgets: workloads, budgets for their pods, and drains."""

from __future__ import annotations

from kcm.actors.controllers.workloads import disruption
from kcm.actors.simulation.campaign.setting import WORKLOADS, Setting

BUDGETS_TOO = Setting(name="budgets", controllers=(*WORKLOADS, disruption.SPEC))
