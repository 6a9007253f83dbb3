"""CronJob controller: creates Jobs by a schedule.

slots.py computes the scheduled times that are due, jobs.py builds the Jobs, status.py is the status being updated.
"""

from kcm.actors.controllers.workloads.cronjob.spec import SPEC

__all__ = ["SPEC"]
