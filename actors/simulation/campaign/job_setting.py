"""The setting of seeded runs about Jobs, and the collector of what they leave behind."""

from __future__ import annotations

from actors.controllers.objects import garbage_collector
from actors.controllers.workloads import job
from actors.simulation.campaign.setting import Setting

JOBS_TOO = Setting(name="jobs", controllers=(job.SPEC, garbage_collector.SPEC))
