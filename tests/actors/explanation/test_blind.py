"""Blind trial: stuck and healthy objects by an author who had not read the rules (docs/why-trial.md)."""

from __future__ import annotations

import pytest

from kcm.actors.explanation.catalogue import CATALOGUE
from tests.actors.explanation import blind_healthy_second, blind_healthy_third
from tests.actors.explanation.blind import BLIND, SETS
from tests.actors.explanation.blind_healthy import Suspicious, explained
from tests.actors.explanation.trial import run_trial

ON_HOLD = {
    ("Job", "held"),
    ("CronJob", "off-season"),
    ("PersistentVolumeClaim", "later"),
    ("PersistentVolume", "kept-disk"),
    ("ResourceClaim", "unused"),
    ("HorizontalPodAutoscaler", "nightshift"),
    ("Node", "hollow-node-1"),
}


def test_blind_scenarios_have_unique_names_facts_and_known_codes() -> None:
    scenarios = [scenario for found in SETS.values() for scenario in found]
    names = [scenario.name for scenario in scenarios]
    assert len(set(names)) == len(names)
    assert [scenario.name for scenario in scenarios if not scenario.facts or not scenario.cause] == []
    codes = {code for scenario in BLIND if scenario.code for code in scenario.code.split("|")}
    assert codes <= CATALOGUE.keys()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_first_cause_is_right_for_all_blind_scenarios() -> None:
    wrong = {outcome.scenario.name: outcome.found for outcome in run_trial(BLIND, seed=1) if not outcome.is_right}
    assert wrong == {}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_wrong_with_healthy_objects_and_some_are_on_hold() -> None:
    found = list(explained(seed=1))
    assert len(found) >= 60
    assert _alarms(found) == {}
    assert {(each.kind, each.name) for each in found if each.explanation.verdict == "on hold"} == ON_HOLD


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_wrong_with_healthy_objects_of_the_second_trial() -> None:
    found = list(explained(blind_healthy_second.MAKERS, seed=1))
    assert len(found) >= 25
    assert _alarms(found) == {}
    held = {each.name for each in found if each.explanation.verdict == "on hold"}
    assert held == blind_healthy_second.ON_HOLD - blind_healthy_second.AT_REST


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_wrong_with_healthy_objects_of_the_third_trial() -> None:
    found = list(explained(blind_healthy_third.MAKERS, seed=1))
    assert len(found) >= 12
    assert _alarms(found) == {}
    held = {each.name for each in found if each.explanation.verdict == "on hold"}
    assert held == blind_healthy_third.ON_HOLD - blind_healthy_third.AT_REST


def _alarms(found: list[Suspicious]) -> dict[tuple[str, str], str]:
    return {(each.kind, each.name): each.explanation.summary for each in found if each.is_false_alarm}
