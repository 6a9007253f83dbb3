"""node-ipam-controller: gives each node its range of pod addresses.

Read reconciler.py first. holdings.py knows which node holds which blocks, cidr_set.py which blocks of a range are
taken, ranges.py what the flags say.
"""

from kcm.actors.controllers.nodes.node_ipam.spec import SPEC

__all__ = ["SPEC"]
