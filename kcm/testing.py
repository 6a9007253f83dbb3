"""Public names for tests of controllers; docs/testing.md lists them.

Apart from `kcm`, since they bring the API server and the simulator along.
"""

from typing import TYPE_CHECKING

from kcm._lazy import lazily

if TYPE_CHECKING:
    from actors.app.local_cluster import LocalCluster
    from actors.simulation import SimulatedCluster
    from actors.simulation.campaign.checking import must_hold
    from actors.simulation.campaign.scenarios import Wish, end_state, unsettled
    from actors.simulation.campaign.setting import Fleet, Setting
    from actors.simulation.driving import (
        Bench,
        Driven,
        StillClock,
        bodies,
        created_keys,
        created_names,
        deleted_keys,
        drive,
        drive_steps,
        failing,
    )
    from actors.simulation.invariants.watching import (
        Answered,
        CarriedOut,
        Committed,
        Happening,
        Invariant,
        LetIn,
        ObjectTo,
        ProcessStarted,
        Sent,
        Submitted,
    )
    from runtime.faults.vocabulary import Fault, FaultKind, parse_faults
    from runtime.simulation.plan import draw_plan
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "Answered": "actors.simulation.invariants.watching:Answered",
            "CarriedOut": "actors.simulation.invariants.watching:CarriedOut",
            "Bench": "actors.simulation.driving:Bench",
            "Driven": "actors.simulation.driving:Driven",
            "StillClock": "actors.simulation.driving:StillClock",
            "bodies": "actors.simulation.driving:bodies",
            "created_keys": "actors.simulation.driving:created_keys",
            "created_names": "actors.simulation.driving:created_names",
            "deleted_keys": "actors.simulation.driving:deleted_keys",
            "drive": "actors.simulation.driving:drive",
            "drive_steps": "actors.simulation.driving:drive_steps",
            "failing": "actors.simulation.driving:failing",
            "Committed": "actors.simulation.invariants.watching:Committed",
            "draw_plan": "runtime.simulation.plan:draw_plan",
            "end_state": "actors.simulation.campaign.scenarios:end_state",
            "Fault": "runtime.faults.vocabulary:Fault",
            "FaultKind": "runtime.faults.vocabulary:FaultKind",
            "Fleet": "actors.simulation.campaign.setting:Fleet",
            "Happening": "actors.simulation.invariants.watching:Happening",
            "Invariant": "actors.simulation.invariants.watching:Invariant",
            "LetIn": "actors.simulation.invariants.watching:LetIn",
            "LocalCluster": "actors.app.local_cluster:LocalCluster",
            "must_hold": "actors.simulation.campaign.checking:must_hold",
            "ObjectTo": "actors.simulation.invariants.watching:ObjectTo",
            "parse_faults": "runtime.faults.vocabulary:parse_faults",
            "ProcessStarted": "actors.simulation.invariants.watching:ProcessStarted",
            "Sent": "actors.simulation.invariants.watching:Sent",
            "Setting": "actors.simulation.campaign.setting:Setting",
            "SimulatedCluster": "actors.simulation:SimulatedCluster",
            "Submitted": "actors.simulation.invariants.watching:Submitted",
            "unsettled": "actors.simulation.campaign.scenarios:unsettled",
            "Wish": "actors.simulation.campaign.scenarios:Wish",
        },
    )

__all__ = [
    "Answered",
    "Bench",
    "CarriedOut",
    "Committed",
    "Driven",
    "Fault",
    "FaultKind",
    "Fleet",
    "Happening",
    "Invariant",
    "LetIn",
    "LocalCluster",
    "ObjectTo",
    "ProcessStarted",
    "Sent",
    "Setting",
    "SimulatedCluster",
    "StillClock",
    "Submitted",
    "Wish",
    "bodies",
    "created_keys",
    "created_names",
    "deleted_keys",
    "draw_plan",
    "drive",
    "drive_steps",
    "end_state",
    "failing",
    "must_hold",
    "parse_faults",
    "unsettled",
]
