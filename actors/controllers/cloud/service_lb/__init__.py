"""service-lb-controller: has the cloud put a load balancer before each Service that asks for one.

Read reconciler.py first; wishes.py decides what concerns a load balancer, and which nodes it sends to.
"""

from kcm.actors.controllers.cloud.service_lb.options import ServiceLoadBalancerOptions
from kcm.actors.controllers.cloud.service_lb.spec import SPEC

__all__ = ["SPEC", "ServiceLoadBalancerOptions"]
