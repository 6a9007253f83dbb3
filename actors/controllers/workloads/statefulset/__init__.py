"""statefulset-controller: keeps pods that have an identity: a name, a place in an order, and claims of their own.

reconciler.py is what it does, pod_control.py the writes for one pod. The decisions: fields (what a spec says), identity
(names, ordinals, the form of pods), claims (their form and owners), ordering (who is next), revisions (which template a
pod has), status.
"""

from kcm.actors.controllers.workloads.statefulset.spec import SPEC

__all__ = ["SPEC"]
