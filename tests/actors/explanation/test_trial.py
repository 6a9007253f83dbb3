"""Scored trial: the first cause of each kind of stuck object. `python -m tests.actors.explanation.trial` prints it."""

from __future__ import annotations

import pytest

from kcm.actors.explanation.catalogue import CATALOGUE
from tests.actors.explanation.healthy import TEAMS, observe
from tests.actors.explanation.scenarios import SCENARIOS
from tests.actors.explanation.trial import run_trial

ALWAYS = ("image cannot be pulled", "quota is used up", "finalizer of another program", "resources are not free")
RIGHT = 0.95  # part of the first causes


def test_scenarios_have_unique_names_and_known_codes() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    assert {code for scenario in SCENARIOS for code in scenario.code.split("|")} <= CATALOGUE.keys()


def test_first_cause_of_frequent_kinds_is_right() -> None:
    chosen = [scenario for scenario in SCENARIOS if scenario.name in ALWAYS]
    assert [
        (outcome.scenario.name, outcome.found) for outcome in run_trial(chosen, seed=1) if not outcome.is_right
    ] == []


def false_reports(teams: int) -> list[tuple[str, str, str]]:
    found = observe(teams=teams, seed=3)
    assert {explanation.verdict for explanation in found["settled"]} == {"nothing is wrong"}
    return [
        (when, explanation.about, explanation.summary)
        for when, explanations in found.items()
        for explanation in explanations
        if explanation.verdict not in ("nothing is wrong", "under way")
    ]


def test_healthy_objects_are_not_reported() -> None:
    assert false_reports(teams=1) == []


@pytest.mark.slow
def test_a_thousand_healthy_objects_are_not_reported() -> None:
    assert false_reports(teams=TEAMS) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_first_cause_is_right_for_nearly_all_kinds(seed: int) -> None:
    outcomes = list(run_trial(SCENARIOS, seed=seed))
    wrong = [(outcome.scenario.name, outcome.found) for outcome in outcomes if not outcome.is_right]
    assert len(wrong) <= (1 - RIGHT) * len(outcomes), wrong
