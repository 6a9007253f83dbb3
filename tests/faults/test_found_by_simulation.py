"""Bugs of kcm that simulated runs have found, replayed from seeds and plans.

A change of the simulator or of a trial may outdate a run, so that it no longer meets its bug. So each bug of FOUND is
also reintroduced, and the run must find it. The seeds and plans were drawn again for that, where the first ones had
become outdated.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from msgspec import structs

from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.domain_settings import ATTACHMENTS_SETTING, JOBS_SETTING, NODES_SETTING
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.invariants.observer import Violation
from kcm.actors.simulation.trials.actions import create, delete
from kcm.actors.simulation.trials.workloads.actions import workload
from kcm.protocols.resources import DEPLOYMENTS, REPLICASETS
from kcm.runtime.faults.vocabulary import parse_faults
from tests.faults.combined_actions import COMBINED_NODES, COMBINED_WORKLOADS
from tests.faults.recorded_seeds import must_be_found_by
from tests.faults.reintroduced import (
    Mutation,
    early_failures_extend_the_backoff,
    loss_of_the_lease_is_announced_once,
    new_incarnations_begin_at_once,
    new_incarnations_do_not_wait_for_reads,
    refused_connections_count_as_failures,
    refused_connections_have_long_backoffs,
    together,
    unknown_creations_are_forgotten,
    unseen_users_are_not_checked_again,
    versions_of_tables_advance_late,
)

WEB = workload(DEPLOYMENTS, "web", 3, "v1")
PATIENT = create(5.0, REPLICASETS, workload(REPLICASETS, "set", 2, "v1", minReadySeconds=4))


class Found(NamedTuple):
    """Bug that a run has found.

    mutation: reintroduces it.
    actions: numbers of the user actions that are carried out; None for all.
    """

    mutation: Mutation
    seed: int
    plan: str
    setting: Setting = COMBINED_WORKLOADS
    actions: tuple[int, ...] | None = None

    def violations(self, seed: int) -> list[Violation]:
        return check(seed, parse_faults(self.plan), setting=self.setting, actions=self.actions).violations


FOUND = {
    "the manager failed as the lease was lost, and the process neither led nor ended": Found(
        loss_of_the_lease_is_announced_once,
        4190,
        "lease-stolen 18.52.. seconds=15; "
        "actor-crashed 20..20.1 rate=1 most=1 process=manager* actor=controller-manager",
    ),
    "connections were refused, and a key waited for ten minutes": Found(
        together(early_failures_extend_the_backoff, refused_connections_have_long_backoffs),
        18,
        "command-refused 10.14..31.92 seconds=0.05 process=manager* resource=replicasets; server-away 2.27..6.02; "
        "watch-lagging 11.1..14.7 seconds=0.05 process=manager*",
    ),
    "connections were refused, and a Deployment was given up": Found(
        together(early_failures_extend_the_backoff, refused_connections_count_as_failures),
        6,
        "message-delayed 18.16..27.43 seconds=0.05 process=manager* actor=controller:deployment-controller; "
        "command-refused 4.1..37.54 seconds=20 process=manager* resource=deployments; "
        "command-delayed 8.96..30.71 seconds=0.05 process=manager* resource=pods",
    ),
    "a pod was there already, could not be looked at, and another was made beside it": Found(
        unknown_creations_are_forgotten,
        12,
        "command-repeated 26.8..29.87 rate=0.5 seconds=0.05 process=manager*; "
        "command-delayed 24.74..38.17 seconds=0.5 process=manager*; "
        "command-refused 10.18..33.32 rate=0.5 seconds=0.5 process=manager*; "
        "watch-stalled 5.56..26.05 rate=0.1 seconds=20 process=manager* resource=pods",
    ),
    "the same, and the status met a conflict": Found(
        unknown_creations_are_forgotten,
        0,
        "command-refused 9.81..25.42 rate=0.3 seconds=0.05 process=manager*; "
        "command-repeated 9.12..27.45 seconds=0.5 process=manager*; "
        "command-lost 1.72..34.79 rate=0.3 seconds=20 process=manager* resource=pods; server-restarted 9.48..12.92",
    ),
    "a burst of changes while nothing but errors came back, and a key waited for minutes": Found(
        early_failures_extend_the_backoff,
        2,
        "command-answered 0.66..40 status=500 process=manager* resource=replicasets; "
        "watch-lagging 5..40 seconds=0.05 process=manager*",
    ),
    "a controller was started anew, and began before its table showed a pod that the one before had looked at": Found(
        new_incarnations_do_not_wait_for_reads,
        63,
        "command-repeated 5..38 rate=0.5 seconds=0.05 process=manager*; "
        "actor-vanished 8..38 rate=0.5 most=3 process=manager* actor=controller:*; "
        "watch-lagging 4..40 rate=0.5 seconds=20 process=manager* resource=pods",
    ),
    "a controller was started anew, and its table still showed pods that the one before had deleted": Found(
        new_incarnations_begin_at_once,
        105,
        "actor-vanished 19.23..30.9 rate=0.3 most=1 process=manager* actor=controller:*; "
        "watch-lagging 15.26..30.83 rate=0.1 seconds=20 process=manager*; "
        "process-paused 20.71..35.85 process=manager*",
    ),
    "an informer failed as it told of a pod, and the next one's list was from before that pod": Found(
        versions_of_tables_advance_late,
        23,
        "actor-hung 4.14..16.57 rate=0.1 most=1 seconds=50 process=manager*; "
        "list-stale 18.43..33.1 rate=0.5 seconds=0.05 process=manager* resource=pods; "
        "actor-broken 16.39..24.44 rate=0.1 most=2 process=manager*",
    ),
    "a deleted claim was kept for a pod that no watch had shown before its deletion": Found(
        unseen_users_are_not_checked_again,
        281130171024,
        "server-restarted 37.7..37.77; watch-dropped 16.25..97.45 seconds=5 process=manager* resource=pods",
        ATTACHMENTS_SETTING,
        (7, 29, 33, 34),
    ),
}


@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND.keys())
def test_bug_stays_fixed(found: Found) -> None:
    assert found.violations(found.seed) == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize("found", FOUND.values(), ids=FOUND.keys())
def test_recorded_run_finds_the_bug_if_it_returns(found: Found) -> None:
    def finds(seed: int) -> bool:
        with found.mutation():
            return bool(found.violations(seed))

    must_be_found_by(found.seed, finds)


# Runs for which no bug can be reintroduced: what was corrected was the simulator or an invariant (a false alarm), or a
# mechanism that no longer exists. So nothing would be missed if they became outdated, and the invariants
# are checked alone, without a second run to compare the end with.


@pytest.mark.parametrize("seed", [10647, 11122])
def test_observed_generation_does_not_decrease(seed: int) -> None:
    assert check(seed, setting=COMBINED_WORKLOADS, compared=False).violations == []


def test_stale_list_does_not_delete_routes_of_existing_nodes() -> None:
    plan = "process-crashed 8..9 process=manager*; list-stale 9..40 seconds=8.6 process=manager* resource=nodes"
    assert check(0, parse_faults(plan), setting=COMBINED_NODES, compared=False).violations == []


def test_a_rollback_does_not_count_on_pods_that_are_about_to_go() -> None:
    """The rollback came while its ReplicaSet was being scaled down, with an outdated status."""
    plan = "watch-lagging 6.99..44.26 rate=0.5 seconds=0.5 process=manager*"
    assert check(5063, parse_faults(plan), setting=COMBINED_NODES, compared=False).violations == []


def test_events_do_not_count_as_writes_of_workloads() -> None:
    """False alarm: events about rejected deletions were counted as status writes."""
    plan = "command-answered 13.46..36.54 seconds=5 status=410 process=manager* resource=pods"
    assert check(305091, parse_faults(plan), setting=COMBINED_WORKLOADS, compared=False).violations == []


def test_removal_of_a_pod_with_finalizer_counts_as_two_writes() -> None:
    """False alarm: the pod of a suspended Job lost its finalizer and was deleted."""
    assert check(17, (), setting=JOBS_SETTING, compared=False).violations == []


def test_unsent_retry_does_not_undo_a_creation_with_unknown_outcome() -> None:
    """False alarm: the creation of a pod was retried with its name without the lease, and so not sent."""
    plan = (
        "partition 10.75..30.88 rate=0.3 seconds=0.05 process=manager*; "
        "actor-broken 3.23..37.35 rate=0.1 most=1 process=manager* actor=elector; "
        "actor-vanished 0.46..16.09 rate=0.3 most=2 process=manager* actor=informer:v1/pods; "
        "command-lost 0.25..17.52 rate=0.5 seconds=0.5 process=manager* resource=pods; "
        "process-crashed 9.68..21.08 process=manager*"
    )
    assert check(300642, parse_faults(plan), setting=COMBINED_WORKLOADS, compared=False).violations == []


def test_two_leaders_who_do_not_see_the_same_write_over_each_other() -> None:
    """False alarm: a lease was stolen, and only one of the two leaders saw all pods."""
    plan = "partition 8.07..37.5 rate=0.1 seconds=0.5 process=manager* resource=pods; lease-stolen 15.11.. seconds=1"
    assert check(480355, parse_faults(plan), setting=COMBINED_WORKLOADS, compared=False).violations == []


def test_pod_deleted_before_the_outcome_of_its_creation_is_not_surplus() -> None:
    """False alarm: the pod was evicted because of its node's taints before the outcome of its creation arrived."""
    plan = "zone-silent 19.62..52.58 object=zone-a; outcome-lost 18.54..89.72 rate=0.3 seconds=0.05 process=manager*"
    assert check(5005, parse_faults(plan), setting=COMBINED_NODES, compared=False).violations == []


def test_pods_become_available_after_a_clock_jump() -> None:
    """The clock was an hour behind, and the keys were requeued after an hour even after it had been corrected."""
    plan = "clock-jumped 4.43..27.39 seconds=-3600 process=manager*"
    patient = structs.replace(COMBINED_WORKLOADS, actions=lambda _: (PATIENT,))
    assert check(0, parse_faults(plan), setting=patient, compared=False).violations == []


def test_controller_paused_while_it_hangs_keeps_its_old_state() -> None:
    """False alarm: the end of the pause also ended an endless hang."""
    plan = (
        "actor-hung 0.4..32.17 rate=0.3 most=1 process=manager* actor=controller:replicaset-controller; "
        "process-paused 2.56..19.37 process=manager*"
    )
    gone = delete(13.22, DEPLOYMENTS, "default/web")
    briefly = structs.replace(USUAL, actions=lambda _: (create(1.0, DEPLOYMENTS, WEB), gone))
    assert check(8000082, parse_faults(plan), setting=briefly, compared=False).violations == []


def test_user_does_not_wait_for_pods_that_need_silent_nodes() -> None:
    """False alarm: with the strategy Recreate, new pods wait for the deletion of those on silent nodes."""
    actions = (1, 11, 13, 16, 26)
    assert check(9000170, (), setting=NODES_SETTING, actions=actions, compared=False).violations == []


def test_creation_that_arrives_after_its_outcome_is_not_checked() -> None:
    """False alarm: the name was free again because the pod of a later attempt had been deleted."""
    plan = (
        "actor-vanished 4.35..27.13 rate=0.5 most=2 process=manager*; "
        "command-delayed 3.82..18.03 rate=0.3 seconds=20 process=manager*; "
        "command-delayed 4.08..37.43 rate=0.3 seconds=20 process=manager*"
    )
    assert check(10000262, parse_faults(plan), setting=USUAL, compared=False).violations == []


def test_watch_of_a_late_server_may_cause_a_status_after_settling() -> None:
    """False alarm: the rollout ended in time, and the controller observed its end 20 s later."""
    plan = (
        "list-stale 51.46..78.66 seconds=20 process=manager*; server-away 62.99..72.17; "
        "answer-lost 52.74..78.04 rate=0.5 seconds=0.5 process=manager* resource=routes"
    )
    assert check(11060199, parse_faults(plan), setting=NODES_SETTING, compared=False).violations == []
