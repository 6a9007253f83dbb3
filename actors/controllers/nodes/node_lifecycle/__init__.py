"""node-lifecycle-controller: decides which nodes are alive, and has pods leave those that are not.

Read reconciler.py first. Decisions, pure: health, conditions, zones, taints, labels. Steps around them: monitor (all
nodes), node_taints and pods (one node), direct_eviction. zone_eviction_queue.py is the actor of one zone,
zone_queues.py what its owner remembers of all of them.
"""

from kcm.actors.controllers.nodes.node_lifecycle.spec import SPEC

__all__ = ["SPEC"]
