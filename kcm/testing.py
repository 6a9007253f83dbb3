"""Public names for tests of controllers; docs/testing.md lists them.

Apart from `kcm`, since they bring the API server and the simulator along.
"""

from typing import TYPE_CHECKING

from kcm._lazy import lazily

if TYPE_CHECKING:
    from actors.simulation import SimulatedCluster
    from actors.simulation.campaign.coverage import Coverage
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
    from actors.simulation.objects import (
        custom_object,
        deployment,
        lease,
        namespace,
        node,
        owned_by,
        pod,
        pod_spec,
        pod_template,
        replica_set,
        running_pod,
        service,
        stored,
        taint,
        toleration,
    )
    from actors.simulation.trials.actions import create as user_creates
    from actors.simulation.trials.actions import delete as user_deletes
    from actors.simulation.trials.actions import merge as user_merges
    from actors.simulation.trials.actions import replace as user_replaces
    from actors.simulation.trials.actions import unless_gone
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
            "Coverage": "actors.simulation.campaign.coverage:Coverage",
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
            "must_hold": "actors.simulation.campaign.explaining:must_hold",
            "Fail": "actors.simulation.invariants.observing:Fail",
            "parse_faults": "runtime.faults.vocabulary:parse_faults",
            "ProcessStarted": "actors.simulation.invariants.observing:ProcessStarted",
            "Sent": "actors.simulation.invariants.observing:Sent",
            "Setting": "actors.simulation.campaign.setting:Setting",
            "SimulatedCluster": "actors.simulation:SimulatedCluster",
            "Submitted": "actors.simulation.invariants.observing:Submitted",
            "custom_object": "actors.simulation.objects:custom_object",
            "deployment": "actors.simulation.objects:deployment",
            "lease": "actors.simulation.objects:lease",
            "namespace": "actors.simulation.objects:namespace",
            "node": "actors.simulation.objects:node",
            "owned_by": "actors.simulation.objects:owned_by",
            "pod": "actors.simulation.objects:pod",
            "pod_spec": "actors.simulation.objects:pod_spec",
            "pod_template": "actors.simulation.objects:pod_template",
            "replica_set": "actors.simulation.objects:replica_set",
            "running_pod": "actors.simulation.objects:running_pod",
            "service": "actors.simulation.objects:service",
            "stored": "actors.simulation.objects:stored",
            "taint": "actors.simulation.objects:taint",
            "toleration": "actors.simulation.objects:toleration",
            "user_creates": "actors.simulation.trials.actions:create",
            "user_deletes": "actors.simulation.trials.actions:delete",
            "user_merges": "actors.simulation.trials.actions:merge",
            "user_replaces": "actors.simulation.trials.actions:replace",
            "unless_gone": "actors.simulation.trials.actions:unless_gone",
        },
    )

__all__ = [
    "Action",
    "Admitted",
    "Bench",
    "Called",
    "Campaign",
    "Committed",
    "Coverage",
    "Driven",
    "Entitled",
    "Fail",
    "Fault",
    "FaultKind",
    "Fleet",
    "Handled",
    "Invariant",
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
    "custom_object",
    "deleted_keys",
    "deployment",
    "draw_plan",
    "drive",
    "drive_steps",
    "failing",
    "lease",
    "must_hold",
    "namespace",
    "node",
    "owned_by",
    "parse_faults",
    "pod",
    "pod_spec",
    "pod_template",
    "replica_set",
    "run_campaign",
    "running_pod",
    "service",
    "stored",
    "taint",
    "toleration",
    "unless_gone",
    "user_creates",
    "user_deletes",
    "user_merges",
    "user_replaces",
]
