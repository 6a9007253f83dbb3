"""The settings of seeded runs about CronJobs."""

from __future__ import annotations

from dataclasses import replace

from kcm.actors.controllers.workloads import cronjob
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.setting import Setting

BEFORE_A_MINUTE = 42.0  # seconds into a minute at which a run begins: the next one comes while things go wrong


def _begin_in_a_minute(cluster: SimulatedCluster) -> None:
    cluster.clock.skew += BEFORE_A_MINUTE


CRON_JOBS_TOO = Setting(name="cron-jobs", controllers=(cronjob.SPEC,), prepare=_begin_in_a_minute)
# Several minutes come while things go wrong.
CRON_JOBS_FOR_LONG = replace(CRON_JOBS_TOO, name="cron-jobs-for-long", acting=150.0, faults=170.0)
