"""The setting of seeded runs about finished Jobs, and what deletes them."""

from __future__ import annotations

from kcm.actors.controllers.workloads import ttl_after_finished
from kcm.actors.simulation.campaign.setting import Setting

FINISHED_TOO = Setting(name="finished", controllers=(ttl_after_finished.SPEC,))
