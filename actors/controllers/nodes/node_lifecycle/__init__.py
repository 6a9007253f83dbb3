"""Node lifecycle controller: detects failed nodes, and evicts their pods.

Read reconciler.py first. monitor.py contains the periodic pass over all nodes. health.py, status.py, taints.py and
pods.py handle single nodes, and zones.py handles zones. zone_eviction_queue.py is the actor that limits the rate of
evictions in one zone; zone_queues.py is the reconciler's record of these actors.
"""

from kcm.actors.controllers.nodes.node_lifecycle.spec import SPEC

__all__ = ["SPEC"]
