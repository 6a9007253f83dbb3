"""node-lifecycle-controller: tells which nodes are alive, and sees that pods leave those that are not.

Read reconciler.py first. Decisions: health, conditions, zones, taints, labels. Steps around them: monitor (all nodes),
node_taints and pods (one node), direct_eviction. zone_queues is the owner's side of the zones' eviction queues.
"""
