"""deployment-controller: keeps a Deployment's ReplicaSets as its spec asks, and rolls from template to template.

Read reconciler.py first. Plans, pure: rolling, recreate, scaling, rollback; what they rest on: arithmetic, revisions,
history, annotations, fields; what a Deployment's status says: progress, status. rollout.py takes the steps.
"""

from kcm.actors.controllers.workloads.deployment.spec import SPEC

__all__ = ["SPEC"]
