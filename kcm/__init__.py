"""The controller manager as a library: the only names that other programs may import; docs/embedding.md lists them.

`kcm` is for running the controller manager and for writing controllers, `kcm.testing` for testing them. All names are
typed. A name is imported when it is first used, so `import kcm` costs almost nothing. Everything in `actors`, `runtime`
and `protocols` is internal and may change without notice.
"""

from typing import TYPE_CHECKING

from kcm._lazy import lazily

if TYPE_CHECKING:
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
    from protocols.messages.commands import PatchType
    from protocols.messages.outcomes import (
        AlreadyExists,
        CommandFailed,
        Conflict,
        Done,
        Forbidden,
        Gone,
        Invalid,
        NotFound,
        Outcome,
        Refused,
        ServerFailure,
        Throttled,
        Unknown,
    )
    from protocols.objects import Key, Object, decode_object, encode_object, key_of, make_key, name_of, split_key
    from protocols.resources import Resource
    from runtime.client.api import Request, Response, Transport
    from runtime.client.config import ConfigError
    from runtime.flags.declaration import FlagError
    from runtime.metrics.registry import Family, Metrics
    from runtime.scheduling.clock import Clock, SystemClock
    from runtime.tables.overlay import Lister, Tables
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "AlreadyExists": "protocols.messages.outcomes:AlreadyExists",
            "api_transport": "actors.app.connection:api_transport",
            "BUILT_IN": "actors.controllers.built_in:BUILT_IN",
            "Change": "actors.reconciliation:Change",
            "Clock": "runtime.scheduling.clock:Clock",
            "CommandFailed": "protocols.messages.outcomes:CommandFailed",
            "ConfigError": "runtime.client.config:ConfigError",
            "Conflict": "protocols.messages.outcomes:Conflict",
            "ControllerSpec": "actors.reconciliation.specs:ControllerSpec",
            "ControllerSystem": "actors.app.system:ControllerSystem",
            "create": "actors.reconciliation:create",
            "decode_object": "protocols.objects:decode_object",
            "delete": "actors.reconciliation:delete",
            "Done": "protocols.messages.outcomes:Done",
            "Election": "actors.engine.elector:Election",
            "encode_object": "protocols.objects:encode_object",
            "Family": "runtime.metrics.registry:Family",
            "FlagError": "runtime.flags.declaration:FlagError",
            "Forbidden": "protocols.messages.outcomes:Forbidden",
            "get_live": "actors.reconciliation:get_live",
            "Gone": "protocols.messages.outcomes:Gone",
            "installed_controllers": "actors.app.installed:installed_controllers",
            "Invalid": "protocols.messages.outcomes:Invalid",
            "InvalidOptions": "actors.options:InvalidOptions",
            "its_controller": "actors.reconciliation:its_controller",
            "itself": "actors.reconciliation:itself",
            "Key": "protocols.objects:Key",
            "key_of": "protocols.objects:key_of",
            "list_live": "actors.reconciliation:list_live",
            "Lister": "runtime.tables.overlay:Lister",
            "make_key": "protocols.objects:make_key",
            "Metrics": "runtime.metrics.registry:Metrics",
            "must": "actors.reconciliation:must",
            "must_object": "actors.reconciliation:must_object",
            "name_of": "protocols.objects:name_of",
            "NotFound": "protocols.messages.outcomes:NotFound",
            "Object": "protocols.objects:Object",
            "Options": "actors.options:Options",
            "Outcome": "protocols.messages.outcomes:Outcome",
            "patch": "actors.reconciliation:patch",
            "PatchType": "protocols.messages.commands:PatchType",
            "perform": "actors.reconciliation:perform",
            "read_options": "actors.app.arguments:read_options",
            "Reconciler": "actors.reconciliation:Reconciler",
            "Reconciliation": "actors.reconciliation:Reconciliation",
            "record": "actors.reconciliation:record",
            "Refused": "protocols.messages.outcomes:Refused",
            "Request": "runtime.client.api:Request",
            "RequeueAfter": "actors.reconciliation:RequeueAfter",
            "Resource": "protocols.resources:Resource",
            "Response": "runtime.client.api:Response",
            "ServerFailure": "protocols.messages.outcomes:ServerFailure",
            "slow_start": "actors.reconciliation:slow_start",
            "split_key": "protocols.objects:split_key",
            "Step": "actors.reconciliation:Step",
            "Surroundings": "actors.reconciliation.specs:Surroundings",
            "SystemClock": "runtime.scheduling.clock:SystemClock",
            "Tables": "runtime.tables.overlay:Tables",
            "Throttled": "protocols.messages.outcomes:Throttled",
            "together": "actors.reconciliation:together",
            "Transport": "runtime.client.api:Transport",
            "Unknown": "protocols.messages.outcomes:Unknown",
            "update": "actors.reconciliation:update",
            "Watch": "actors.reconciliation:Watch",
        },
    )

__all__ = [
    "BUILT_IN",
    "AlreadyExists",
    "Change",
    "Clock",
    "CommandFailed",
    "ConfigError",
    "Conflict",
    "ControllerSpec",
    "ControllerSystem",
    "Done",
    "Election",
    "Family",
    "FlagError",
    "Forbidden",
    "Gone",
    "Invalid",
    "InvalidOptions",
    "Key",
    "Lister",
    "Metrics",
    "NotFound",
    "Object",
    "Options",
    "Outcome",
    "PatchType",
    "Reconciler",
    "Reconciliation",
    "Refused",
    "Request",
    "RequeueAfter",
    "Resource",
    "Response",
    "ServerFailure",
    "Step",
    "Surroundings",
    "SystemClock",
    "Tables",
    "Throttled",
    "Transport",
    "Unknown",
    "Watch",
    "api_transport",
    "create",
    "decode_object",
    "delete",
    "encode_object",
    "get_live",
    "installed_controllers",
    "its_controller",
    "itself",
    "key_of",
    "list_live",
    "make_key",
    "must",
    "must_object",
    "name_of",
    "patch",
    "perform",
    "read_options",
    "record",
    "slow_start",
    "split_key",
    "together",
    "update",
]
