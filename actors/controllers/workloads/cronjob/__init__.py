"""CronJob controller: creates Jobs at scheduled times, which are called slots.

- reconciler.py: the decisions; read it first.
- slots.py: which slots are due, and when the next slot is.
- jobs.py: the Jobs of a CronJob.
- status.py: the status of a CronJob while it is updated.
- settled.py: the versions that need no further sync before the next slot.
"""

from kcm.actors.controllers.workloads.cronjob.spec import SPEC

__all__ = ["SPEC"]
