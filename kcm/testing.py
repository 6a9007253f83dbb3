"""Public names for tests of controllers; docs/testing.md lists them.

They are separate from `kcm` because they import the API server and the simulator.
"""

from typing import TYPE_CHECKING

from kcm._lazy import lazily

if TYPE_CHECKING:
    from kcm.actors.engine.webhooks.roundtrips import check_roundtrips
    from kcm.actors.simulation import SimulatedCluster
    from kcm.actors.simulation.campaign.coverage import Coverage
    from kcm.actors.simulation.campaign.failure_reports import must_hold
    from kcm.actors.simulation.campaign.many import Campaign, run_campaign
    from kcm.actors.simulation.campaign.seed_results import Tried
    from kcm.actors.simulation.campaign.setting import RunEnvironment, Setting
    from kcm.actors.simulation.campaign.strategies import Plan, plans, user_actions
    from kcm.actors.simulation.campaign.user_actions import UserActions
    from kcm.actors.simulation.driver import (
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
        returned,
    )
    from kcm.actors.simulation.invariants.observer import (
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
        Recorded,
        Sent,
        Submitted,
    )
    from kcm.actors.simulation.invariants.ownership import Owns
    from kcm.actors.simulation.objects import (
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
    from kcm.actors.simulation.trials.actions import create as user_creates
    from kcm.actors.simulation.trials.actions import delete as user_deletes
    from kcm.actors.simulation.trials.actions import merge as user_merges
    from kcm.actors.simulation.trials.actions import replace as user_replaces
    from kcm.actors.simulation.trials.actions import unless_gone
    from kcm.actors.simulation.trials.scenario import Action, Fleet, Scenario
    from kcm.actors.simulation.trials.trial import Trial
    from kcm.runtime.apiserver.storage.store import StoreChange
    from kcm.runtime.calls.prepared_calls import raised
    from kcm.runtime.faults.vocabulary import Fault, FaultKind, parse_faults
    from kcm.runtime.simulation.plan import draw_plan
else:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "OutcomeReceived": "kcm.actors.simulation.invariants.observer:OutcomeReceived",
            "Campaign": "kcm.actors.simulation.campaign.many:Campaign",
            "run_campaign": "kcm.actors.simulation.campaign.many:run_campaign",
            "Tried": "kcm.actors.simulation.campaign.seed_results:Tried",
            "Called": "kcm.actors.simulation.invariants.observer:Called",
            "Entitled": "kcm.actors.simulation.invariants.observer:Entitled",
            "Recorded": "kcm.actors.simulation.invariants.observer:Recorded",
            "RunEnvironment": "kcm.actors.simulation.campaign.setting:RunEnvironment",
            "Handled": "kcm.actors.simulation.invariants.observer:Handled",
            "Bench": "kcm.actors.simulation.driver:Bench",
            "Driven": "kcm.actors.simulation.driver:Driven",
            "StillClock": "kcm.actors.simulation.driver:StillClock",
            "bodies": "kcm.actors.simulation.driver:bodies",
            "created_keys": "kcm.actors.simulation.driver:created_keys",
            "created_names": "kcm.actors.simulation.driver:created_names",
            "deleted_keys": "kcm.actors.simulation.driver:deleted_keys",
            "drive": "kcm.actors.simulation.driver:drive",
            "drive_steps": "kcm.actors.simulation.driver:drive_steps",
            "failing": "kcm.actors.simulation.driver:failing",
            "raised": "kcm.runtime.calls.prepared_calls:raised",
            "returned": "kcm.actors.simulation.driver:returned",
            "Coverage": "kcm.actors.simulation.campaign.coverage:Coverage",
            "Plan": "kcm.actors.simulation.campaign.strategies:Plan",
            "plans": "kcm.actors.simulation.campaign.strategies:plans",
            "user_actions": "kcm.actors.simulation.campaign.strategies:user_actions",
            "UserActions": "kcm.actors.simulation.campaign.user_actions:UserActions",
            "Committed": "kcm.actors.simulation.invariants.observer:Committed",
            "draw_plan": "kcm.runtime.simulation.plan:draw_plan",
            "Fault": "kcm.runtime.faults.vocabulary:Fault",
            "FaultKind": "kcm.runtime.faults.vocabulary:FaultKind",
            "Action": "kcm.actors.simulation.trials.scenario:Action",
            "Fleet": "kcm.actors.simulation.trials.scenario:Fleet",
            "Owns": "kcm.actors.simulation.invariants.ownership:Owns",
            "Scenario": "kcm.actors.simulation.trials.scenario:Scenario",
            "Trial": "kcm.actors.simulation.trials.trial:Trial",
            "Observation": "kcm.actors.simulation.invariants.observer:Observation",
            "Invariant": "kcm.actors.simulation.invariants.observer:Invariant",
            "Admitted": "kcm.actors.simulation.invariants.observer:Admitted",
            "must_hold": "kcm.actors.simulation.campaign.failure_reports:must_hold",
            "Fail": "kcm.actors.simulation.invariants.observer:Fail",
            "check_roundtrips": "kcm.actors.engine.webhooks.roundtrips:check_roundtrips",
            "parse_faults": "kcm.runtime.faults.vocabulary:parse_faults",
            "ProcessStarted": "kcm.actors.simulation.invariants.observer:ProcessStarted",
            "Sent": "kcm.actors.simulation.invariants.observer:Sent",
            "Setting": "kcm.actors.simulation.campaign.setting:Setting",
            "SimulatedCluster": "kcm.actors.simulation:SimulatedCluster",
            "StoreChange": "kcm.runtime.apiserver.storage.store:StoreChange",
            "Submitted": "kcm.actors.simulation.invariants.observer:Submitted",
            "custom_object": "kcm.actors.simulation.objects:custom_object",
            "deployment": "kcm.actors.simulation.objects:deployment",
            "lease": "kcm.actors.simulation.objects:lease",
            "namespace": "kcm.actors.simulation.objects:namespace",
            "node": "kcm.actors.simulation.objects:node",
            "owned_by": "kcm.actors.simulation.objects:owned_by",
            "pod": "kcm.actors.simulation.objects:pod",
            "pod_spec": "kcm.actors.simulation.objects:pod_spec",
            "pod_template": "kcm.actors.simulation.objects:pod_template",
            "replica_set": "kcm.actors.simulation.objects:replica_set",
            "running_pod": "kcm.actors.simulation.objects:running_pod",
            "service": "kcm.actors.simulation.objects:service",
            "stored": "kcm.actors.simulation.objects:stored",
            "taint": "kcm.actors.simulation.objects:taint",
            "toleration": "kcm.actors.simulation.objects:toleration",
            "user_creates": "kcm.actors.simulation.trials.actions:create",
            "user_deletes": "kcm.actors.simulation.trials.actions:delete",
            "user_merges": "kcm.actors.simulation.trials.actions:merge",
            "user_replaces": "kcm.actors.simulation.trials.actions:replace",
            "unless_gone": "kcm.actors.simulation.trials.actions:unless_gone",
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
    "Plan",
    "ProcessStarted",
    "Recorded",
    "RunEnvironment",
    "Scenario",
    "Sent",
    "Setting",
    "SimulatedCluster",
    "StillClock",
    "StoreChange",
    "Submitted",
    "Trial",
    "Tried",
    "UserActions",
    "bodies",
    "check_roundtrips",
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
    "plans",
    "pod",
    "pod_spec",
    "pod_template",
    "raised",
    "replica_set",
    "returned",
    "run_campaign",
    "running_pod",
    "service",
    "stored",
    "taint",
    "toleration",
    "unless_gone",
    "user_actions",
    "user_creates",
    "user_deletes",
    "user_merges",
    "user_replaces",
]
