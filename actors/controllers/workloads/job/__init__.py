"""Job controller: runs pods until enough of them have succeeded, and counts each of them once.

reconciler.py is syncJob. Its decisions are functions of what was observed (observed.py, from pods.py and fields.py):
plan.py decides whether the Job ends and which pods to create or delete, policies.py evaluates its policies. The steps
that write are pod_control.py (pods) and finalizers.py (finalizers and status).
"""

from kcm.actors.controllers.workloads.job.spec import SPEC

__all__ = ["SPEC"]
