"""Every controller has a trial, whose declarations fit the controller's spec."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.hollow.specs import hollow_specs
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.simulation.campaign.setting import USUAL, Setting
from kcm.actors.simulation.campaign.settings import SETTINGS
from kcm.actors.simulation.trials.catalogue import TRIALS
from kcm.actors.simulation.trials.scenario import Action
from kcm.runtime.simulation.plan import ON_REQUEST
from tests.actors.simulation.trials.settings import setting_with

SCENARIOS = 24
SPECS = (*BUILT_IN, *hollow_specs(nodes=1, zones=1, volumes=True, devices=True))


def test_every_controller_has_a_trial_and_every_trial_a_controller() -> None:
    assert {spec.name for spec in SPECS} == set(TRIALS)


def test_no_built_in_controller_needs_its_own_thread() -> None:
    assert [spec.name for spec in SPECS if not spec.never_blocks] == []


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_controller_reads_the_resources_that_it_owns(spec: ControllerSpec) -> None:
    for owns in TRIALS[spec.name].owns:
        assert {owns.owner, owns.dependents} <= set(spec.resources)


@pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)
def test_every_trial_has_actions_and_conditions(spec: ControllerSpec) -> None:
    trial, setting = TRIALS[spec.name], setting_with(spec)
    drawn = [list(trial.actions(setting.scenario(number))) for number in range(SCENARIOS)]
    assert sum(map(bool, drawn)) >= SCENARIOS / 6
    assert trial.unsettled is not TRIALS["hollow-nodes-controller"].unsettled


def actions_of(setting: Setting, number: int) -> list[Action]:
    return setting.composed(number).actions(setting.scenario(number))


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_actions_are_determined_by_the_scenario(setting: Setting) -> None:
    texts = [tuple(action[:2] for action in actions_of(setting, number)) for number in range(SCENARIOS)]
    assert texts == [tuple(action[:2] for action in actions_of(setting, number)) for number in range(SCENARIOS)]
    assert len(set(texts)) == SCENARIOS
    assert len({tuple(actions_of(setting, seed)[0][:2]) for seed in range(8_000_000, 8_000_000 + SCENARIOS)}) > 1


def test_seed_has_its_own_scenario_unless_the_setting_limits_them() -> None:
    assert [USUAL.number(seed) for seed in (3, 24, 8_000_000)] == [3, 24, 8_000_000]
    assert [Setting(scenarios=24).number(seed) for seed in (3, 24, 50)] == [3, 0, 2]


def test_most_scenarios_of_workloads_roll_out() -> None:
    rolled = [any("image" in action.text for action in actions_of(USUAL, number)) for number in range(SCENARIOS)]
    assert sum(rolled) >= SCENARIOS / 2


def test_trials_of_controllers_that_a_setting_does_not_have_are_refused() -> None:
    setting = Setting(name="workloads", trials=(TRIALS["ttl-controller"],))
    with pytest.raises(ValueError, match=r"^workloads has trials of controllers that it does not have: \['ttl-contr"):
        setting.composed(0)


def test_trial_of_a_controller_disabled_by_options_is_not_checked() -> None:
    without_cloud = Setting(controllers=BUILT_IN).composed(0)
    assert "node-route-controller" not in {trial.controller for trial in without_cloud.trials}
    assert "ttl-controller" in {trial.controller for trial in without_cloud.trials}


def test_only_given_trials_act_and_all_are_checked() -> None:
    setting = Setting(trials=(TRIALS["replicaset-controller"],))
    composed = setting.composed(0)
    assert {action.text.split()[1] for action in composed.actions(setting.scenario(0))} & {"Deployment"} == set()
    assert {trial.controller for trial in composed.trials} >= {"deployment-controller", "replicaset-controller"}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_no_plan_has_faults_that_are_drawn_on_request_alone(setting: Setting) -> None:
    # By design, a reconciler that waits forever keeps its key forever, so that such a run never converges.
    assert {fault.kind for seed in range(300) for fault in setting.plan(seed)} & {*ON_REQUEST} == set()
