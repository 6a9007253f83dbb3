"""The names of this room that other programs may use; what is not here may change without notice."""

from actors.app.arguments import read_options
from actors.app.connection import api_transport
from actors.app.installed import installed_controllers
from actors.app.system import ControllerSystem
from actors.controllers.built_in import BUILT_IN
from actors.engine.elector import Election
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
from actors.reconciliation.specs import ControllerSpec, Surroundings

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
