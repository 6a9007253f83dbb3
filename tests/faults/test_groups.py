"""Replicas that share groups of controllers, killed and frozen; and bugs that such runs must find."""

from __future__ import annotations

from typing import Any, NamedTuple
from unittest import mock

import pytest

from kcm.actors.engine.dispatcher.actor import Dispatcher
from kcm.actors.engine.elector import coordinator
from kcm.actors.engine.elector.actor import Elector
from kcm.actors.engine.elector.assignment import Move
from kcm.actors.reconciliation.actor_names import ELECTOR
from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.failure_reports import must_hold
from kcm.actors.simulation.campaign.replica_settings import GROUPS_SETTING, draw_replica_plan
from kcm.runtime.faults.vocabulary import FaultKind, parse_faults
from kcm.runtime.scheduling.permits import Tenure, Terms
from tests.faults.recorded_seeds import must_be_found_by


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.slow) for seed in range(8)])
def test_groups_are_held_fenced_and_at_rest_after_kills_and_freezes(seed: int) -> None:
    must_hold(seed, setting=GROUPS_SETTING)


def test_each_plan_kills_or_freezes_a_replica() -> None:
    plans = [draw_replica_plan(seed, seconds=120.0, process="manager*", actors=("dispatcher",)) for seed in range(50)]
    ends = [[fault for fault in plan if fault.kind in ("process-crashed", "process-paused")] for plan in plans]
    assert all(ends)
    assert {fault.process for plan in ends for fault in plan} == {"manager", "manager-2", "manager-3"}
    assert {fault.kind for plan in plans for fault in plan} >= {FaultKind.PARTITION, FaultKind.SERVER_AWAY}


def alone(self: Terms, elector: str) -> Tenure:
    """Return a tenure that the main lease does not limit."""
    return self._tenures.setdefault(elector, Tenure())


def always_a_move(groups: Any, replicas: Any) -> Move | None:
    held = [group for group in groups if group.holder in replicas]
    others = [replica for replica in replicas if held and replica != held[0].holder]
    return Move(held[0].name, held[0].holder, others[0]) if others else None


class Bug(NamedTuple):
    """Bug that runs must find. seed: finds it. faults: None for those that a seed draws."""

    seed: int
    of: object
    changes: dict[str, Any]
    violates: str  # beginning of the name of the invariant
    faults: str | None = None


HUNG = "actor-hung 10..60 actor=group-elector:* seconds=50"
BUGS = {
    "one lease for all groups": Bug(
        3,
        Dispatcher,
        {"_elector_of": lambda _self, _sender: ELECTOR},
        "no write without the lease of the group",
        faults=HUNG,
    ),
    "groups outlast the main lease": Bug(3, Terms, {"of": alone}, "no write without the lease"),
    "groups move all the time": Bug(
        0, coordinator, {"next_move": always_a_move, "MOVES_EVERY": 1.0}, "groups come to rest"
    ),
    "groups are not taken over": Bug(0, Elector, {"_compete": lambda _self, _request: None}, "the system settles"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_bug_of_groups_is_found(name: str) -> None:
    bug = BUGS[name]
    faults = None if bug.faults is None else parse_faults(bug.faults)
    with mock.patch.multiple(bug.of, **bug.changes):
        must_be_found_by(
            bug.seed,
            lambda seed: any(
                violation.invariant.startswith(bug.violates)
                for violation in check(seed, faults, setting=GROUPS_SETTING, compared=False).violations
            ),
        )


@pytest.mark.slow
def test_hung_electors_of_groups_violate_nothing() -> None:
    must_hold(1, faults=parse_faults(HUNG), setting=GROUPS_SETTING)
