"""cronjob-controller: starts Jobs by a schedule.

slots.py has which times are due, jobs.py the Jobs that are made, status.py what a CronJob says of them.
"""

from kcm.actors.controllers.workloads.cronjob.spec import SPEC

__all__ = ["SPEC"]
