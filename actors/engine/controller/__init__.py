"""Actor that drives the reconciler of one controller. Read actor.py first.

keys: the keys that a change concerns.
sources: its queues and passes.
work: running reconciliations.
retries: retries of failed keys and passes.
malformed: names of malformed fields, for errors.
decisions: what the latest reconciliations decided, why, and how they ended.
held_back: keys whose reconciliation hung.
timetable: periodic work.
readiness: conditions for the first reconciliation.
own_writes: own writes in the tables, from outcomes, and objects that are written again and again.
task_log: log of a reconciler.
"""

from kcm.actors.engine.controller.actor import Controller
from kcm.actors.engine.controller.decisions import DecisionMemory, SentCommand, SyncDecision
from kcm.actors.engine.controller.held_back import HeldBack
from kcm.actors.engine.controller.settings import ControllerSettings, PassSettings, QueueSettings
from kcm.actors.engine.controller.task_log import InHand, task_log

__all__ = [
    "Controller",
    "ControllerSettings",
    "DecisionMemory",
    "HeldBack",
    "InHand",
    "PassSettings",
    "QueueSettings",
    "SentCommand",
    "SyncDecision",
    "task_log",
]
