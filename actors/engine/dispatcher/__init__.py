"""Actor that writes to the API server. Read actor.py first.

requests: commands as HTTP requests.
"""

from kcm.actors.engine.dispatcher.actor import Dispatcher, DispatchLimits, saturation

__all__ = ["DispatchLimits", "Dispatcher", "saturation"]
