"""Actor that writes to the API server. Read actor.py first.

requests: commands as HTTP requests.
storm_brake: holds back deletions and evictions.
"""

from kcm.actors.engine.dispatcher.actor import ONE_CLUSTER, Dispatcher, DispatchLimits, saturation

__all__ = ["ONE_CLUSTER", "DispatchLimits", "Dispatcher", "saturation"]
