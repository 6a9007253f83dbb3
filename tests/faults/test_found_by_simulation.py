"""Bugs of kcm that simulated runs have found, replayed from their seeds and shrunk plans."""

from __future__ import annotations

import pytest
from msgspec import structs

from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.domain_settings import JOBS_SETTING, NODES_SETTING
from kcm.actors.simulation.campaign.setting import USUAL
from kcm.actors.simulation.trials.actions import create, delete
from kcm.actors.simulation.trials.workloads.actions import workload
from kcm.protocols.resources import DEPLOYMENTS, REPLICASETS
from kcm.runtime.faults.vocabulary import parse_faults
from tests.faults.combined_actions import COMBINED_NODES, COMBINED_WORKLOADS

WEB = workload(DEPLOYMENTS, "web", 3, "v1")
PATIENT = create(5.0, REPLICASETS, workload(REPLICASETS, "set", 2, "v1", minReadySeconds=4))
FOUND = {
    "the manager failed as the lease was lost, and the process neither led nor ended": (
        4190,
        (
            "lease-stolen 18.52.. seconds=15; "
            "actor-crashed 26.97..29.44 rate=0.3 most=2 process=manager* actor=controller-manager"
        ),
    ),
    "connections were refused, and a key waited for ten minutes": (
        10092,
        (
            "command-refused 10.14..31.92 seconds=0.05 process=manager* resource=replicasets; server-away 2.27..6.02; "
            "watch-lagging 11.1..14.7 seconds=0.05 process=manager*"
        ),
    ),
    "connections were refused, and a Deployment was given up": (
        11228,
        (
            "message-delayed 18.16..27.43 seconds=0.05 process=manager* actor=controller:deployment-controller; "
            "command-refused 4.1..37.54 seconds=20 process=manager* resource=deployments; "
            "command-delayed 8.96..30.71 seconds=0.05 process=manager* resource=pods"
        ),
    ),
    "a pod was there already, could not be looked at, and another was made beside it": (
        101157,
        (
            "command-repeated 26.8..29.87 rate=0.5 seconds=0.05 process=manager*; "
            "command-delayed 24.74..38.17 seconds=0.5 process=manager*; "
            "command-refused 10.18..33.32 rate=0.5 seconds=0.5 process=manager*; "
            "watch-stalled 5.56..26.05 rate=0.1 seconds=20 process=manager* resource=pods"
        ),
    ),
    "the same, and the status met a conflict": (
        100654,
        (
            "command-refused 9.81..25.42 rate=0.3 seconds=0.05 process=manager*; "
            "command-repeated 9.12..27.45 seconds=0.5 process=manager*; "
            "command-lost 1.72..34.79 rate=0.3 seconds=20 process=manager* resource=pods; server-restarted 9.48..12.92"
        ),
    ),
    "a burst of changes while nothing but errors came back, and a key waited for minutes": (
        305725,
        "command-answered 0.66..26.7 seconds=1 status=500 process=manager* resource=replicasets",
    ),
    "a controller was started anew, and began before its table showed a pod that the one before had looked at": (
        103786,
        (
            "node-flapping 5.25..23.71 seconds=20 object=hollow-node-0; "
            "actor-vanished 20.88..26.42 rate=0.5 most=1 process=manager* "
            "actor=controller:replicationcontroller-controller; "
            "command-repeated 11.94..27.19 rate=0.5 seconds=5 process=manager*; "
            "actor-hung 17.04..39.55 rate=0.5 most=1 seconds=50 process=manager* actor=informer:*"
        ),
    ),
    "a controller was started anew, and its table still showed pods that the one before had deleted": (
        305162,
        (
            "actor-vanished 19.23..30.9 rate=0.3 most=1 process=manager* actor=controller:*; "
            "watch-lagging 15.26..30.83 rate=0.1 seconds=20 process=manager*; "
            "process-paused 20.71..35.85 process=manager*"
        ),
    ),
    "an informer failed as it told of a pod, and the next one's list was from before that pod": (
        400954,
        (
            "actor-hung 4.14..16.57 rate=0.1 most=1 seconds=50 process=manager*; "
            "list-stale 18.43..33.1 rate=0.5 seconds=0.05 process=manager* resource=pods; "
            "actor-broken 16.39..24.44 rate=0.1 most=2 process=manager*"
        ),
    ),
    "a status written before its own deletions was the last look: no table ever showed those pods": (
        504252,
        "server-restarted 0.5..8.67",
    ),
}


@pytest.mark.parametrize(("seed", "plan"), FOUND.values(), ids=FOUND.keys())
def test_bug_stays_fixed(seed: int, plan: str) -> None:
    assert check(seed, parse_faults(plan), setting=COMBINED_WORKLOADS).violations == []


@pytest.mark.parametrize("seed", [10647, 11122])
def test_observed_generation_does_not_decrease(seed: int) -> None:
    assert check(seed, setting=COMBINED_WORKLOADS).violations == []


def test_stale_list_does_not_delete_routes_of_existing_nodes() -> None:
    plan = "process-crashed 8..9 process=manager*; list-stale 9..40 seconds=8.6 process=manager* resource=nodes"
    assert check(0, parse_faults(plan), setting=COMBINED_NODES).violations == []


def test_a_rollback_does_not_count_on_pods_that_are_about_to_go() -> None:
    """The rollback came while its ReplicaSet was being scaled down, with an outdated status."""
    plan = "watch-lagging 6.99..44.26 rate=0.5 seconds=0.5 process=manager*"
    assert check(5063, parse_faults(plan), setting=COMBINED_NODES).violations == []


def test_events_do_not_count_as_writes_of_workloads() -> None:
    """False alarm: events about rejected deletions were counted as status writes."""
    plan = "command-answered 13.46..36.54 seconds=5 status=410 process=manager* resource=pods"
    assert check(305091, parse_faults(plan), setting=COMBINED_WORKLOADS).violations == []


def test_removal_of_a_pod_with_finalizer_counts_as_two_writes() -> None:
    """False alarm: the pod of a suspended Job lost its finalizer and was deleted."""
    assert check(17, (), setting=JOBS_SETTING).violations == []


def test_unsent_retry_does_not_undo_a_creation_with_unknown_outcome() -> None:
    """False alarm: the creation of a pod was retried with its name without the lease, and so not sent."""
    plan = (
        "partition 10.75..30.88 rate=0.3 seconds=0.05 process=manager*; "
        "actor-broken 3.23..37.35 rate=0.1 most=1 process=manager* actor=elector; "
        "actor-vanished 0.46..16.09 rate=0.3 most=2 process=manager* actor=informer:v1/pods; "
        "command-lost 0.25..17.52 rate=0.5 seconds=0.5 process=manager* resource=pods; "
        "process-crashed 9.68..21.08 process=manager*"
    )
    assert check(300642, parse_faults(plan), setting=COMBINED_WORKLOADS).violations == []


def test_two_leaders_who_do_not_see_the_same_write_over_each_other() -> None:
    """False alarm: a lease was stolen, and only one of the two leaders saw all pods."""
    plan = "partition 8.07..37.5 rate=0.1 seconds=0.5 process=manager* resource=pods; lease-stolen 15.11.. seconds=1"
    assert check(480355, parse_faults(plan), setting=COMBINED_WORKLOADS).violations == []


def test_pod_deleted_before_the_outcome_of_its_creation_is_not_surplus() -> None:
    """False alarm: the pod was evicted because of its node's taints before the outcome of its creation arrived."""
    plan = "zone-silent 19.62..52.58 object=zone-a; outcome-lost 18.54..89.72 rate=0.3 seconds=0.05 process=manager*"
    assert check(5005, parse_faults(plan), setting=COMBINED_NODES).violations == []


def test_pods_become_available_after_a_clock_jump() -> None:
    """The clock was an hour behind, and the keys were requeued after an hour even after it had been corrected."""
    plan = "clock-jumped 4.43..27.39 seconds=-3600 process=manager*"
    patient = structs.replace(COMBINED_WORKLOADS, actions=lambda _: (PATIENT,))
    assert check(0, parse_faults(plan), setting=patient).violations == []


def test_controller_paused_while_it_hangs_keeps_its_old_state() -> None:
    """False alarm: the end of the pause also ended an endless hang."""
    plan = (
        "actor-hung 0.4..32.17 rate=0.3 most=1 process=manager* actor=controller:replicaset-controller; "
        "process-paused 2.56..19.37 process=manager*"
    )
    gone = delete(13.22, DEPLOYMENTS, "default/web")
    briefly = structs.replace(USUAL, actions=lambda _: (create(1.0, DEPLOYMENTS, WEB), gone))
    assert check(8000082, parse_faults(plan), setting=briefly).violations == []


def test_user_does_not_wait_for_pods_that_need_silent_nodes() -> None:
    """False alarm: with the strategy Recreate, new pods wait for the deletion of those on silent nodes."""
    actions = (1, 11, 13, 16, 26)
    assert check(9000170, (), setting=NODES_SETTING, actions=actions).violations == []


def test_creation_that_arrives_after_its_outcome_is_not_checked() -> None:
    """False alarm: the name was free again because the pod of a later attempt had been deleted."""
    plan = (
        "actor-vanished 4.35..27.13 rate=0.5 most=2 process=manager*; "
        "command-delayed 3.82..18.03 rate=0.3 seconds=20 process=manager*; "
        "command-delayed 4.08..37.43 rate=0.3 seconds=20 process=manager*"
    )
    assert check(10000262, parse_faults(plan), setting=USUAL).violations == []


def test_watch_of_a_late_server_may_cause_a_status_after_settling() -> None:
    """False alarm: the rollout ended in time, and the controller observed its end 20 s later."""
    plan = (
        "list-stale 51.46..78.66 seconds=20 process=manager*; server-away 62.99..72.17; "
        "answer-lost 52.74..78.04 rate=0.5 seconds=0.5 process=manager* resource=routes"
    )
    assert check(11060199, parse_faults(plan), setting=NODES_SETTING).violations == []
