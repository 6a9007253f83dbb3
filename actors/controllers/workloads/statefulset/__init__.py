"""StatefulSet controller: maintains pods with a stable identity: a name, an ordinal, and PersistentVolumeClaims.

Read reconciler.py first. pod_control.py writes one pod and its claims. The other modules are pure functions: objects.py
parses the StatefulSet, identity.py builds pods from their ordinals, claims.py builds claims and their owner references,
pod_steps.py chooses the next step for each pod, revisions.py the template of each pod, and status.py the status.
"""

from kcm.actors.controllers.workloads.statefulset.spec import SPEC

__all__ = ["SPEC"]
