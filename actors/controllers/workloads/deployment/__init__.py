"""Deployment controller: reconciles the ReplicaSets of each Deployment, and rolls out changes of the pod template.

Read reconciler.py first. objects.py parses Deployments and ReplicaSets. plans.py, revisions.py and status.py compute
the changes with pure functions, and rollout.py writes them.
"""

from kcm.actors.controllers.workloads.deployment.spec import SPEC

__all__ = ["SPEC"]
