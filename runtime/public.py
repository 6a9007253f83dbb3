"""The names of this room that other programs may use; what is not here may change without notice."""

from runtime.client.api import Request, Response, Transport
from runtime.client.config import ConfigError
from runtime.faults.vocabulary import Fault, parse_faults
from runtime.faults.vocabulary import Kind as FaultKind
from runtime.flags.declaration import FlagError
from runtime.metrics.registry import Family, Metrics
from runtime.scheduling.clock import Clock, SystemClock
from runtime.simulation.plan import draw_plan
from runtime.tables.overlay import Lister, Tables

__all__ = [
    "Clock",
    "ConfigError",
    "Family",
    "Fault",
    "FaultKind",
    "FlagError",
    "Lister",
    "Metrics",
    "Request",
    "Response",
    "SystemClock",
    "Tables",
    "Transport",
    "draw_plan",
    "parse_faults",
]
