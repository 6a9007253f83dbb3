"""User actions and faults drawn by hypothesis, which finds the simplest failing example."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from msgspec import structs

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.domain_settings import NODES_SETTING
from kcm.actors.simulation.campaign.failure_reports import must_hold
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.campaign.strategies import Plan, plans, user_actions
from kcm.actors.simulation.campaign.user_actions import UserActions
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.runtime.faults.vocabulary import FaultKind, parse_faults
from tests.support.census import CONFIGMAPS

QUIETLY = settings(derandomize=True, database=None, deadline=None, max_examples=40)


def configured(at: float, name: str, size: int) -> Action:
    return create(at, CONFIGMAPS, {"metadata": {"name": name}, "data": {"size": str(size)}})


def actions(scenario: Scenario) -> Iterator[Action]:
    chance = scenario.chance("config maps")
    for at, name in zip(scenario.times(chance, chance.randint(1, 4)), "abcd", strict=False):
        yield configured(at, name, chance.randint(0, 50))


def too_large(cluster: SimulatedCluster) -> list[str]:
    sizes = [int(configmap.get("data", {}).get("size", 0)) for configmap in cluster.list(CONFIGMAPS)]
    return [f"{size} is too large" for size in sizes if size > 7]


SETTING = Setting(
    name="config maps", controllers=(), trials=(), actions=actions, unsettled=too_large, faults=31.0, settled=5.0
)


def fails(actions: UserActions) -> bool:
    return bool(check(actions.number, (), setting=actions.setting, compared=False).violations)


def test_the_values_that_trials_draw_are_shrunk_to_the_simplest_that_fail() -> None:
    simplest = find(user_actions(SETTING), fails, settings=QUIETLY)
    assert [action.text for action in simplest.actions] == ["create ConfigMap a"]
    assert simplest.number == 0
    cluster = SimulatedCluster()
    assert simplest.actions[0].do(cluster)
    assert too_large(cluster) == ["8 is too large"]


def test_actions_may_be_a_custom_strategy() -> None:
    sizes = st.lists(st.integers(0, 50), max_size=4)
    own = sizes.map(lambda drawn: [configured(1.0 + n, f"map-{n}", size) for n, size in enumerate(drawn)])
    simplest = find(user_actions(SETTING, actions=own), lambda actions: len(actions.actions) > 0, settings=QUIETLY)
    assert repr(simplest) == "User actions in scenario 0 of config maps:\n    1 s: create ConfigMap map-0"


def test_a_plan_is_part_of_what_a_seed_draws_and_shrinks_to_the_fault_that_matters() -> None:
    drawn = Setting(
        draw=lambda seed, **_: parse_faults(f"command-lost 1..2; partition {seed % 3}..9; server-away 0..9")
    )
    simplest = find(
        plans(drawn), lambda plan: any(fault.kind is FaultKind.PARTITION for fault in plan), settings=QUIETLY
    )
    assert repr(simplest) == 'parse_faults("partition 0..9")'
    assert find(plans(drawn), lambda plan: True, settings=QUIETLY) == Plan()


@pytest.mark.parametrize("setting", [USUAL, NODES_SETTING], ids=lambda setting: setting.name)
def test_all_that_our_own_trials_draw_hypothesis_can_draw(setting: Setting) -> None:
    @settings(QUIETLY, max_examples=10)
    @given(user_actions(setting), plans(setting))
    def drawn(actions: UserActions, plan: Plan) -> None:
        assert list(actions.actions) == sorted(actions.actions, key=lambda action: action.at)
        assert actions.setting.plan(0) == setting.plan(0)
        assert parse_faults(repr(plan).split('"')[1]) == plan

    drawn()


def test_failing_user_actions_are_reported_with_a_replay() -> None:
    must_hold(UserActions(SETTING, 3, [configured(1.0, "a", 7)]), faults=())
    with pytest.raises(AssertionError, match=r"user actions:\n +0 +1.00 s +create ConfigMap a\n") as raised:
        must_hold(UserActions(SETTING, 3, [configured(1.0, "a", 8)]), faults=())
    assert "replay:\n  run the test again: " in str(raised.value)
    with pytest.raises(TypeError, match="UserActions have their own setting, config maps"):
        must_hold(UserActions(SETTING, 3, []), setting=USUAL)


@settings(QUIETLY, max_examples=3)
@given(user_actions(structs.replace(USUAL, scenarios=1)), plans())
def test_user_actions_succeed_with_any_faults(actions: UserActions, plan: Plan) -> None:
    assert actions.number == 0
    must_hold(actions, faults=plan)
