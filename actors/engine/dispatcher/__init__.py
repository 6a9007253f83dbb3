"""Actor that writes to the API server. Read actor.py first.

requests: commands as HTTP requests.
"""

from kcm.actors.engine.dispatcher.actor import LANE, ONE_CLUSTER, Dispatcher, DispatchLimits, saturation

__all__ = ["LANE", "ONE_CLUSTER", "DispatchLimits", "Dispatcher", "saturation"]
