"""Supervisor of all other actors. Read actor.py first.

plan: everything it may start, and the requests of operators.
children: their state and restarts.
shutdown: draining, of all controllers or of those of a group.
"""

from kcm.actors.engine.manager.actor import ControllerManager
from kcm.actors.engine.manager.shutdown import DRAINED

__all__ = ["DRAINED", "ControllerManager"]
