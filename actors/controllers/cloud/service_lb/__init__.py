"""service-lb-controller: has the cloud put a load balancer before each Service that asks for one.

Read reconciler.py first; load_balancers.py decides what affects a load balancer and which nodes are its targets.
"""

from kcm.actors.controllers.cloud.service_lb.options import ServiceLoadBalancerOptions
from kcm.actors.controllers.cloud.service_lb.spec import SPEC

__all__ = ["SPEC", "ServiceLoadBalancerOptions"]
