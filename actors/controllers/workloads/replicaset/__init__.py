"""replicaset-controller: keeps as many pods as a ReplicaSet asks for. It serves ReplicationControllers as well.

Read reconciler.py first; kind.py says what differs between the two kinds, and which changes concern which owner.
"""

from kcm.actors.controllers.workloads.replicaset.spec import SPEC

__all__ = ["SPEC"]
