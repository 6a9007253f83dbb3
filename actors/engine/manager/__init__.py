"""The supervisor of all other actors. Read actor.py first.

plan: what it may start, and what operators asked for. children: who lives, who is restarted. shutdown: how all end.
"""

from kcm.actors.engine.manager.actor import ControllerManager
from kcm.actors.engine.manager.shutdown import DRAINED

__all__ = ["DRAINED", "ControllerManager"]
