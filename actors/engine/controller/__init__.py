"""The actor that drives a reconciler, one for each controller. Read actor.py first.

keys: which keys a change concerns. sources: its queues and passes. work: the reconciliations in work. retries: what
becomes of a key or a pass that failed. held_back: of one that hung. timetable: what it does as time passes. readiness:
what must be before it may act. own_writes: what outcomes show of its own writes. task_log: the log that a reconciler is
given.
"""

from kcm.actors.engine.controller.actor import Controller
from kcm.actors.engine.controller.held_back import HeldBack
from kcm.actors.engine.controller.settings import ControllerSettings, PassSettings, QueueSettings
from kcm.actors.engine.controller.task_log import InHand, task_log

__all__ = ["Controller", "ControllerSettings", "HeldBack", "InHand", "PassSettings", "QueueSettings", "task_log"]
