from __future__ import annotations

import pytest

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.known_state import InferredSyncs, ValueHistory, handling_delay
from kcm.protocols.messages.commands import Command, Get
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.logs.standard_log import quiet_log


def test_value_is_valid_until_the_next_one() -> None:
    history = ValueHistory()
    for version, value in ((10, 1), (20, 5), (25, 5), (30, 2)):
        history.note("a", version, value)
    assert history.between("a", 15, 15) == [1]
    assert history.between("a", 15, 29) == [1, 5]
    assert history.between("a", 20, 30) == [5, 2]
    assert history.between("a", 40, 50) == [2]
    assert history.since("a") == 10


def test_value_counts_from_its_first_version() -> None:
    history = ValueHistory()
    history.note("a", 10, 1)
    assert history.between("a", 1, 10) == [1]
    assert history.between("a", 1, 9) == []
    assert history.between("b", 1, 9) == []


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster(log=quiet_log())


def submitted(syncs: InferredSyncs, note: str, *commands: Command, owner: str = "uid") -> str:
    return syncs.submitted("manager", "controller:c", owner, commands, lambda: note)


def test_commands_right_after_an_outcome_belong_to_the_same_sync(cluster: SimulatedCluster) -> None:
    syncs, asked = InferredSyncs(cluster), Get("v1/pods", "d/a")
    assert submitted(syncs, "first", asked) == "first"
    cluster.run_for(20)
    assert syncs.settled(asked) == "first"
    assert submitted(syncs, "second") == "first"
    cluster.run_for(1)
    assert submitted(syncs, "third") == "third"


def test_owners_and_incarnations_have_separate_syncs(cluster: SimulatedCluster) -> None:
    syncs, asked = InferredSyncs(cluster), Get("v1/pods", "d/a")
    assert syncs.admitted("manager", "controller:c", 1, ())
    submitted(syncs, "first", asked)
    assert submitted(syncs, "other", owner="another") == "other"
    assert syncs.admitted("manager", "controller:c", 2, (asked,))
    assert submitted(syncs, "second", asked) == "second"
    syncs.started("manager")
    assert submitted(syncs, "third") == "third"
    assert syncs.admitted("manager", "controller:c", 2, ())


def test_inferred_sync_outlives_the_dispatcher_and_drops_unsent_commands(cluster: SimulatedCluster) -> None:
    syncs, sent, lost = InferredSyncs(cluster), Get("v1/pods", "d/a"), Get("v1/pods", "d/b")
    syncs.admitted("manager", "controller:c", 1, ())
    submitted(syncs, "first", sent, lost)
    assert not syncs.admitted("manager", "controller:c", 1, (lost,))
    cluster.run_for(20)
    assert submitted(syncs, "second") == "first"
    assert syncs.settled(sent) == "first"
    cluster.run_for(1)
    assert submitted(syncs, "third") == "third"


def test_handling_delay_is_the_sum_of_the_plans_delays() -> None:
    plan = (
        "actor-hung 1..2 seconds=10; message-delayed 1..9 seconds=5; process-paused 3..7; watch-lagging 1..2 seconds=20"
    )
    assert handling_delay(parse_faults(plan)) == 19
