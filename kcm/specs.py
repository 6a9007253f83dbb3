"""Declarations of a controller: its queues, watches, indexes, passes, sources and flags."""

from kcm.actors.options import ControllerOptions
from kcm.actors.reconciliation import (
    ORPHANS,
    Change,
    DebugPage,
    Interest,
    Read,
    Reconciler,
    Watch,
    its_controller,
    itself,
)
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Facts, Index, Pass, Queue, Source
from kcm.protocols.messages.discovery import ServedResource
from kcm.runtime.calls.listeners import Waker
from kcm.runtime.flags.declaration import flag
from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.clock import Clock, SystemClock

__all__ = [
    "ORPHANS",
    "Backoff",
    "Change",
    "Clock",
    "ControllerContext",
    "ControllerOptions",
    "ControllerSpec",
    "DebugPage",
    "Discovered",
    "Facts",
    "Index",
    "Interest",
    "Pass",
    "Queue",
    "Read",
    "Reconciler",
    "ServedResource",
    "Source",
    "SystemClock",
    "Waker",
    "Watch",
    "flag",
    "its_controller",
    "itself",
]
