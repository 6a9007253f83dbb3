"""node-route-controller: has the cloud route each node's podCIDRs to it.

Read reconciler.py first; plan.py decides which routes there should be.
"""

from kcm.actors.controllers.cloud.node_route.spec import SPEC

__all__ = ["SPEC"]
