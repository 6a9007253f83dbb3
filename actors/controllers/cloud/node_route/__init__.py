"""Node route controller: creates routes in the cloud for the podCIDRs of each node.

Read reconciler.py first; plan.py computes the desired routes.
"""

from kcm.actors.controllers.cloud.node_route.spec import SPEC

__all__ = ["SPEC"]
