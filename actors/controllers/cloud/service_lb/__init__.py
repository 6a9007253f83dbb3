"""Service load balancer controller: maintains load balancers in the cloud for Services of type LoadBalancer.

Read reconciler.py first. load_balancers.py decides which changes of a Service affect its load balancer, and to which
nodes a load balancer sends traffic.
"""

from kcm.actors.controllers.cloud.service_lb.options import ServiceLoadBalancerOptions
from kcm.actors.controllers.cloud.service_lb.spec import SPEC

__all__ = ["SPEC", "ServiceLoadBalancerOptions"]
