"""The names of this room that other programs may use; what is not here may change without notice."""

from runtime.api import Request, Response, Transport
from runtime.client.config import ConfigError
from runtime.clock import Clock, SystemClock
from runtime.flags import FlagError
from runtime.metrics import Family, Metrics
from runtime.overlay import Lister, Tables

__all__ = [
    "Clock",
    "ConfigError",
    "Family",
    "FlagError",
    "Lister",
    "Metrics",
    "Request",
    "Response",
    "SystemClock",
    "Tables",
    "Transport",
]
