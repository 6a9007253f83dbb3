"""The names of this room that other programs may use; what is not here may change without notice."""

from actors.arguments import read_options
from actors.catalogue import BUILT_IN
from actors.connection import api_transport
from actors.controller_system import ControllerSystem
from actors.elector import Election
from actors.installed import installed_controllers
from actors.options import InvalidOptions, Options
from actors.reconciliation import (
    Change,
    Reconciler,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    create,
    delete,
    get_live,
    its_controller,
    itself,
    list_live,
    must,
    must_object,
    patch,
    perform,
    record,
    slow_start,
    together,
    update,
)
from actors.specs import ControllerSpec, Surroundings

__all__ = [
    "BUILT_IN",
    "Change",
    "ControllerSpec",
    "ControllerSystem",
    "Election",
    "InvalidOptions",
    "Options",
    "Reconciler",
    "Reconciliation",
    "RequeueAfter",
    "Step",
    "Surroundings",
    "Watch",
    "api_transport",
    "create",
    "delete",
    "get_live",
    "installed_controllers",
    "its_controller",
    "itself",
    "list_live",
    "must",
    "must_object",
    "patch",
    "perform",
    "read_options",
    "record",
    "slow_start",
    "together",
    "update",
]
