"""job-controller: runs pods until enough of them have succeeded, and counts each of them once.

Read reconciler.py first. What it decides with is in files of their own: finishing.py says why a Job ends, managing.py
which pods it is to have, tracking.py which are counted.
"""

from actors.controllers.workloads.job.spec import SPEC

__all__ = ["SPEC"]
