"""The names of this room that other programs may use; what is not here may change without notice."""

from runtime.api import Request, Response, Transport
from runtime.client.config import ConfigError
from runtime.clock import Clock, SystemClock
from runtime.flags import FlagError
from runtime.metrics import Family, Metrics
from runtime.overlay import Lister, Tables
from runtime.simulation.faults import Fault, parse_faults
from runtime.simulation.faults import Kind as FaultKind
from runtime.simulation.plan import draw_plan

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
