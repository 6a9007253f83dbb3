"""job-controller: runs pods until enough of them have succeeded, and counts each of them once.

Read reconciler.py first, which is one sync; acting.py and counting.py are its steps that write. What it decides with is
in files of their own: finishing.py says why a Job ends, managing.py which pods it is to have, tracking.py which are
counted.
"""

from kcm.actors.controllers.workloads.job.spec import SPEC

__all__ = ["SPEC"]
