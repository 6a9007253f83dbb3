"""Resource claim controller: generates ResourceClaims from templates, reserves them for pods, and releases them.

Read reconciler.py first. claims.py contains the decisions, watches.py which changes enqueue which keys.
"""

from kcm.actors.controllers.devices.resource_claim.spec import SPEC

__all__ = ["SPEC"]
