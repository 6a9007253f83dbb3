"""StatefulSet controller: maintains pods with a stable identity: a name, an ordinal, and PersistentVolumeClaims.

Read reconciler.py first; pod_control.py has the writes for one pod. The decisions are in objects.py (the parsed
StatefulSet), identity.py (names, ordinals, the form of pods), claims.py (claims and their owners), pod_steps.py (the
next step for each pod), revisions.py (the template of each pod) and status.py.
"""

from kcm.actors.controllers.workloads.statefulset.spec import SPEC

__all__ = ["SPEC"]
