"""ReplicaSet controller: maintains the desired number of pods. Its code also serves ReplicationControllers.

Read reconciler.py first. kind.py defines the differences between the two kinds, and the watches.
"""

from kcm.actors.controllers.workloads.replicaset.spec import SPEC

__all__ = ["SPEC"]
