"""A combined setting contains everything of its parts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.controllers.network.endpointslice import EndpointSliceOptions
from kcm.actors.controllers.nodes.pod_garbage_collector import PodGarbageCollectorOptions
from kcm.actors.reconciliation.specs import switched_on
from kcm.actors.simulation.campaign.combined_settings import combined, switched_on_by_name
from kcm.actors.simulation.campaign.domain_settings import POD_CERTIFICATES_SETTING
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.campaign.settings import EVERYTHING, PARTS, SWARM
from kcm.actors.simulation.trials.catalogue import TRIALS
from kcm.actors.simulation.trials.scenario import Action, Fleet

SCENARIOS = 12
GATED = {"podgroup-protection-controller"}  # runs in scenarios with an odd number


def test_everything_runs_all_built_in_controllers_and_each_is_tried() -> None:
    for number in range(SCENARIOS):
        specs, options = EVERYTHING.specs(None), EVERYTHING.options(number)
        assert options is not None
        assert [spec.name for spec in specs] == [spec.name for spec in BUILT_IN]
        assert switched_on(specs, options) == specs
        by_itself = {spec.name for spec in POD_CERTIFICATES_SETTING.specs(None)}
        absent = by_itself | (set() if number % 2 else GATED)
        assert {trial.controller for trial in EVERYTHING.composed(number).trials} == set(TRIALS) - absent


def test_everything_has_the_options_of_its_parts() -> None:
    options = [EVERYTHING.options(number) for number in range(SCENARIOS)]
    assert {option[PodGarbageCollectorOptions].terminated_pod_threshold for option in options if option} == {3}
    assert {option[EndpointSliceOptions].max_endpoints for option in options if option} >= {2, 3}


def test_users_do_in_everything_what_they_do_in_each_of_its_parts() -> None:
    everything = _first_words(EVERYTHING)
    kinds = [_first_words(part) - everything for part in PARTS]
    assert kinds == [set() for _ in PARTS]


def test_swarm_actions_of_a_trial_equal_those_of_everything() -> None:
    # The actions of a trial do not depend on the other trials: their texts and times are equal.
    kept, total = 0, 0
    for number in range(SCENARIOS):
        there = {(action.at, action.text) for action in _actions(EVERYTHING, number)}
        some = _actions(SWARM, number)
        assert some
        kept += sum((action.at, action.text) in there for action in some)
        total += len(some)
    assert kept >= 0.9 * total, "other users leave other nodes free, and nothing else"


def test_users_of_each_trial_act_in_some_seed_of_a_swarm() -> None:
    trials = EVERYTHING.composed(0).trials
    seen = [len([*SWARM.with_users(SWARM.scenario(number), trials)]) for number in range(60)]
    assert {trial for number in range(60) for trial in SWARM.with_users(SWARM.scenario(number), trials)} == {*trials}
    assert min(seen) < len(trials) / 5 < sum(seen) / 60 < len(trials) / 2
    assert max(seen) == len(trials)


def test_swarm_has_the_trials_options_and_plans_of_everything() -> None:
    for number in range(SCENARIOS):
        some, every = SWARM.composed(number), EVERYTHING.composed(number)
        assert some.trials == every.trials
        assert some.options == every.options
        assert SWARM.plan(number) == EVERYTHING.plan(number)


def _actions(setting: Setting, number: int) -> list[Action]:
    return setting.composed(number).actions(setting.scenario(number))


def _first_words(setting: Setting) -> set[str]:
    """Return the first words of the actions of some scenarios, which name the verb or the kind of object."""
    return {action.text.split()[0] for number in range(SCENARIOS) for action in _actions(setting, number)}


def test_combined_setting_has_the_conditions_of_all_parts() -> None:
    done: list[str] = []

    def part(name: str, **more: Any) -> Setting:
        return Setting(
            name=name,
            invariants=lambda _cluster, _scenario: [name],  # type: ignore[list-item]
            unsettled=lambda _cluster: [f"{name} is unsettled"],
            end_state=lambda _cluster: {name: 1},
            prepare=lambda _cluster: done.append(name),
            **more,
        )

    both: Any = combined(
        "both",
        part("a", acting=10.0, settled=500.0, steady=False, fleet=lambda _scenario: Fleet(nodes=9)),
        part("b", faults=90.0, cloud=True, heartbeats=False, pod=lambda _scenario: {"hostNetwork": True}),
    )
    both.prepare(None)
    assert done == ["a", "b"]
    assert both.invariants(None, None) == ["a", "b"]
    assert [*both.unsettled(None)] == ["a is unsettled", "b is unsettled"]
    assert both.end_state(None) == {"a": 1, "b": 1}
    assert (both.acting, both.faults, both.settled) == (30.0, 90.0, 500.0)
    assert (both.steady, both.cloud, both.heartbeats) == (False, True, False)
    assert (both.fleet(0).nodes, both.pod(0)) == (9, {"hostNetwork": True})
    assert both.controllers == USUAL.controllers


def test_a_setting_with_a_world_outside_is_not_combined() -> None:
    with pytest.raises(ValueError, match="everything: a setting with `outside`"):
        combined("everything", USUAL, Setting(outside=lambda _around: object()))


def test_controllers_that_are_off_by_default_are_switched_on_by_name() -> None:
    on, off = BUILT_IN[0], replace(BUILT_IN[1], on_by_default=False)
    assert switched_on_by_name([on, off]) == f"--controllers=*,{off.name}"
    assert switched_on_by_name([on]) == "--controllers=*"
