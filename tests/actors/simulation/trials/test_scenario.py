"""Scenarios: equal numbers have equal actions, and a node is affected once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.scenario import Action, Fleet, NodePool, Scenario, do_in_order
from kcm.runtime.logs.standard_log import quiet_log


def pool() -> NodePool:
    return NodePool(Fleet(nodes=6, zones=2), random.Random(1))


def test_node_is_taken_once_and_one_per_zone_is_spared() -> None:
    nodes = pool()
    taken = [nodes.take() for _ in range(5)]
    assert len({*taken}) == 5
    assert taken[4] is None
    spared = set(nodes.machines) - {*taken}
    assert {nodes.machines[name].zone for name in spared} == set(nodes.zones)


def test_kept_nodes_are_not_removed_and_removed_nodes_not_kept() -> None:
    nodes = pool()
    removed = nodes.take(removed=True)
    kept = nodes.keep(random.Random(2), 5)
    assert len(kept) == 5
    assert removed not in kept
    assert nodes.take(removed=True) is None


def test_a_zone_is_taken_whole() -> None:
    nodes = pool()
    zone = nodes.take_zone("zone-a")
    assert len(zone) == 3
    assert not {nodes.take(), nodes.take(), nodes.take()} & {*zone}


def test_draws_of_one_trial_do_not_affect_another() -> None:
    first, second = Scenario(7, seconds=30), Scenario(7, seconds=30)
    first.chance("a").random()
    assert first.chance("b").random() == second.chance("b").random()
    assert second.chance("b").random() != Scenario(8, seconds=30).chance("b").random()


def test_action_that_cannot_be_done_yet_delays_later_ones() -> None:
    cluster = SimulatedCluster(log=quiet_log())
    done: list[tuple[str, float]] = []

    def note(what: str, *, when: float = 0.0) -> Action:
        def do(cluster: SimulatedCluster) -> bool:
            now = cluster.clock.monotonic()
            if now < when:
                return False
            done.append((what, now))
            return True

        return Action(1.0 if what == "first" else 2.0, what, do)

    waiting = do_in_order(cluster, [note("second"), note("first", when=5.0)])
    cluster.run_for(10)
    assert done == [("first", 5.0), ("second", 5.0)]
    assert waiting == []


def test_drawn_names_differ_and_may_be_prefixes_of_each_other() -> None:
    scenario = Scenario(1, seconds=30)
    drawn = [scenario.names(random.Random(seed), "web", 3) for seed in range(50)]
    assert all(len({*names}) == len(names) <= 3 for names in drawn)
    assert {"web", "web-1", "web-10"} <= {name for names in drawn for name in names}


def life_of(seed: int) -> list[str]:
    def act(word: str) -> Callable[[float], Iterator[Action]]:
        return lambda at: iter((Action(at, word, lambda _cluster: True),))

    scenario = Scenario(seed, seconds=30)
    chance = scenario.chance("life")
    drawn = list(
        scenario.life(chance, make=act("make"), changes=(act("scale"), act("kill")), remove=act("remove"), most=6)
    )
    assert [action.at for action in drawn] == sorted(action.at for action in drawn)
    return [action.text for action in drawn]


def test_life_creates_changes_deletes_and_recreates_an_object() -> None:
    lives = [life_of(seed) for seed in range(200)]
    for life in lives:
        there = False
        for word in life:
            assert there == (word != "make")
            there = word != "remove"
    assert {word for life in lives for word in life} == {"make", "scale", "kill", "remove"}
    assert any(life.count("make") > 1 for life in lives)
    assert len({*map(tuple, lives)}) > 50, "in orders that nobody wrote"
