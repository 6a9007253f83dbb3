"""Assignment of groups to replicas: tables of cases, and properties of drawn ones."""

from __future__ import annotations

import random

import pytest

from kcm.actors.engine.elector.assignment import GroupState, Move, assigned, next_move


def states(text: str) -> list[GroupState]:
    """Return groups from a text such as "a:3@one b:1", with a cost and perhaps a holder each."""
    found = []
    for word in text.split():
        group, _, holder = word.partition("@")
        name, _, cost = group.partition(":")
        found.append(GroupState(name, float(cost), holder))
    return found


@pytest.mark.parametrize(
    ("groups", "replicas", "expected"),
    [
        pytest.param("a:1 b:1", (), {}, id="no replica"),
        pytest.param("a:1 b:1", ("one",), {"a": "one", "b": "one"}, id="one replica takes all"),
        pytest.param("a:1@one b:1@one", ("one", "two"), {"a": "one", "b": "one"}, id="held groups stay"),
        pytest.param("a:1@one b:1", ("one", "two"), {"a": "one", "b": "two"}, id="free group to the idle replica"),
        pytest.param(
            "a:5@one b:2 c:2 d:1", ("one", "two"), {"a": "one", "b": "two", "c": "two", "d": "two"}, id="by cost"
        ),
        pytest.param(
            "a:3 b:2 c:1@one", ("one", "two"), {"a": "two", "b": "one", "c": "one"}, id="most expensive first"
        ),
        pytest.param("a:1@gone b:1", ("one",), {"a": "gone", "b": "one"}, id="holder that takes no further groups"),
    ],
)
def test_groups_are_assigned(groups: str, replicas: tuple[str, ...], expected: dict[str, str]) -> None:
    assert assigned(states(groups), replicas) == expected


def test_equal_groups_are_spread_over_equal_replicas() -> None:
    found = assigned(states(" ".join(f"g{number}:1" for number in range(9))), ("one", "two", "three"))
    assert sorted([*found.values()].count(replica) for replica in ("one", "two", "three")) == [3, 3, 3]


def test_order_of_groups_and_replicas_does_not_matter() -> None:
    chance = random.Random(4)
    groups, replicas = states("a:1 b:1 c:2 d:2@two e:3 f:1@one"), ["one", "two", "three"]
    expected = assigned(groups, replicas)
    for _ in range(20):
        chance.shuffle(groups)
        chance.shuffle(replicas)
        assert assigned(groups, replicas) == expected


@pytest.mark.parametrize(
    ("groups", "replicas", "expected"),
    [
        pytest.param("a:1@one b:1@one", ("one",), None, id="one replica"),
        pytest.param("a:1@one b:1@one", ("one", "two"), Move("a", "one", "two"), id="new replica"),
        pytest.param("a:1@one b:1@two", ("one", "two"), None, id="balanced"),
        pytest.param("a:9@one b:1@one", ("one", "two"), Move("b", "one", "two"), id="the smaller group"),
        pytest.param("a:9@one", ("one", "two"), None, id="single group"),
        pytest.param("a:10@one b:0.4@one", ("one", "two"), None, id="not worth a move"),
        pytest.param("a:1@one b:1", ("one", "two"), None, id="a group is free"),
        pytest.param("a:1@one b:1@one c:1@gone", ("one", "two"), None, id="a holder leaves"),
        pytest.param("a:4@one b:3@one c:2@one d:1@two", ("one", "two"), Move("a", "one", "two"), id="best of several"),
    ],
)
def test_move(groups: str, replicas: tuple[str, ...], expected: Move | None) -> None:
    assert next_move(states(groups), replicas) == expected


@pytest.mark.parametrize("seed", range(50))
def test_moves_end_with_even_loads(seed: int) -> None:
    """Each move goes where the free group is then assigned, and there are at most as many as groups."""
    chance = random.Random(seed)
    replicas = [f"r{number}" for number in range(chance.randint(2, 5))]
    groups = [
        GroupState(f"g{number}", chance.choice((0.002, 0.01, 0.1, chance.random())), replicas[0])
        for number in range(chance.randint(1, 14))
    ]
    moves = 0
    while (move := next_move(groups, replicas)) is not None:
        moves += 1
        assert moves <= len(groups)
        freed = [GroupState(g.name, g.cost, "" if g.name == move.group else g.holder) for g in groups]
        assert assigned(freed, replicas)[move.group] == move.target
        groups = [GroupState(g.name, g.cost, move.target if g.name == move.group else g.holder) for g in groups]
    loads = [sum(g.cost for g in groups if g.holder == replica) for replica in replicas]
    average, largest = sum(loads) / len(loads), max(g.cost for g in groups)
    assert max(loads) <= average + largest
