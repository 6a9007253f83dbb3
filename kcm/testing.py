"""Public names for tests of controllers; docs/testing.md lists them.

Apart from `kcm`, since they bring the API server and the simulator along.
"""

from typing import TYPE_CHECKING

from kcm._lazy import lazily

if TYPE_CHECKING:
    from actors.app.local_cluster import LocalCluster
    from actors.simulation import SimulatedCluster
    from actors.simulation.campaign.explaining import must_hold
    from actors.simulation.campaign.many import Campaign, Tried, run_campaign
    from actors.simulation.campaign.setting import Setting
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
    from actors.simulation.invariants.observing import (
        Admitted,
        Called,
        Committed,
        Entitled,
        Fail,
        Handled,
        Invariant,
        Observation,
        OutcomeReceived,
        ProcessStarted,
        Sent,
        Submitted,
    )
    from actors.simulation.invariants.ownership import Owns
    from actors.simulation.trials.scenario import Action, Fleet, Scenario
    from actors.simulation.trials.trial import Trial
    from runtime.faults.vocabulary import Fault, FaultKind, parse_faults
    from runtime.simulation.plan import draw_plan
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "OutcomeReceived": "actors.simulation.invariants.observing:OutcomeReceived",
            "Campaign": "actors.simulation.campaign.many:Campaign",
            "run_campaign": "actors.simulation.campaign.many:run_campaign",
            "Tried": "actors.simulation.campaign.many:Tried",
            "Called": "actors.simulation.invariants.observing:Called",
            "Entitled": "actors.simulation.invariants.observing:Entitled",
            "Handled": "actors.simulation.invariants.observing:Handled",
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
            "Committed": "actors.simulation.invariants.observing:Committed",
            "draw_plan": "runtime.simulation.plan:draw_plan",
            "Fault": "runtime.faults.vocabulary:Fault",
            "FaultKind": "runtime.faults.vocabulary:FaultKind",
            "Action": "actors.simulation.trials.scenario:Action",
            "Fleet": "actors.simulation.trials.scenario:Fleet",
            "Owns": "actors.simulation.invariants.ownership:Owns",
            "Scenario": "actors.simulation.trials.scenario:Scenario",
            "Trial": "actors.simulation.trials.trial:Trial",
            "Observation": "actors.simulation.invariants.observing:Observation",
            "Invariant": "actors.simulation.invariants.observing:Invariant",
            "Admitted": "actors.simulation.invariants.observing:Admitted",
            "LocalCluster": "actors.app.local_cluster:LocalCluster",
            "must_hold": "actors.simulation.campaign.explaining:must_hold",
            "Fail": "actors.simulation.invariants.observing:Fail",
            "parse_faults": "runtime.faults.vocabulary:parse_faults",
            "ProcessStarted": "actors.simulation.invariants.observing:ProcessStarted",
            "Sent": "actors.simulation.invariants.observing:Sent",
            "Setting": "actors.simulation.campaign.setting:Setting",
            "SimulatedCluster": "actors.simulation:SimulatedCluster",
            "Submitted": "actors.simulation.invariants.observing:Submitted",
        },
    )

__all__ = [
    "Action",
    "Admitted",
    "Bench",
    "Called",
    "Campaign",
    "Committed",
    "Driven",
    "Entitled",
    "Fail",
    "Fault",
    "FaultKind",
    "Fleet",
    "Handled",
    "Invariant",
    "LocalCluster",
    "Observation",
    "OutcomeReceived",
    "Owns",
    "ProcessStarted",
    "Scenario",
    "Sent",
    "Setting",
    "SimulatedCluster",
    "StillClock",
    "Submitted",
    "Trial",
    "Tried",
    "bodies",
    "created_keys",
    "created_names",
    "deleted_keys",
    "draw_plan",
    "drive",
    "drive_steps",
    "failing",
    "must_hold",
    "parse_faults",
    "run_campaign",
]
