"""Job controller: runs pods until enough of them have succeeded, and counts each finished pod exactly once.

reconciler.py contains syncJob. fields.py and pods.py parse a Job and its pods, and observed.py derives their state.
plan.py decides from that state whether the Job finishes and which pods to create or delete; policies.py evaluates the
Job's policies. pod_control.py writes pods, finalizers.py writes finalizers and the status.
"""

from kcm.actors.controllers.workloads.job.spec import SPEC

__all__ = ["SPEC"]
