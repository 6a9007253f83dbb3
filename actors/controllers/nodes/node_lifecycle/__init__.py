"""Node lifecycle controller: detects failed nodes, and evicts their pods.

Read reconciler.py first. monitor.py is the pass over all nodes; health.py, status.py, taints.py and pods.py are about
one node, zones.py about the nodes of one zone. zone_eviction_queue.py is the actor that limits the evictions of one
zone, zone_queues.py the reconciler's record of these actors.
"""

from kcm.actors.controllers.nodes.node_lifecycle.spec import SPEC

__all__ = ["SPEC"]
