"""Node IPAM controller: allocates the pod CIDRs of each node.

Read reconciler.py first. node_cidrs.py records the CIDRs of each node, cidr_set.py the free blocks of a cluster CIDR;
cluster_cidrs.py reads the flags.
"""

from kcm.actors.controllers.nodes.node_ipam.spec import SPEC

__all__ = ["SPEC"]
