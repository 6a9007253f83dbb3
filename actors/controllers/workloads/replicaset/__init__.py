"""ReplicaSet controller: maintains the desired number of pods. It also serves ReplicationControllers.

Read reconciler.py first. kind.py contains the differences between the two kinds, and the watches.
"""

from kcm.actors.controllers.workloads.replicaset.spec import SPEC

__all__ = ["SPEC"]
