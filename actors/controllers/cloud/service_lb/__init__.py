"""Service load balancer controller: maintains load balancers in the cloud.

Read reconciler.py first; load_balancers.py decides which fields affect a load balancer, and which nodes are targets.
"""

from kcm.actors.controllers.cloud.service_lb.options import ServiceLoadBalancerOptions
from kcm.actors.controllers.cloud.service_lb.spec import SPEC

__all__ = ["SPEC", "ServiceLoadBalancerOptions"]
