"""Scored trial: the first cause of each kind of stuck object. `python -m tests.actors.explanation.trial` prints it."""

from __future__ import annotations

import pytest

from kcm.actors.explanation.catalogue import CATALOGUE
from tests.actors.explanation.healthy import run_healthy
from tests.actors.explanation.scenarios import SCENARIOS
from tests.actors.explanation.trial import run_trial

ALWAYS = ("image cannot be pulled", "quota is used up", "finalizer of another program", "resources are not free")
RIGHT = 0.95  # part of the first causes


def test_scenarios_have_unique_names_and_show_each_code() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    shown = frozenset[str]().union(*(scenario.codes for scenario in SCENARIOS))
    assert shown - CATALOGUE.keys() == set(), "unknown codes"
    assert CATALOGUE.keys() - shown == set(), "codes without a scenario"


def test_first_cause_of_frequent_kinds_is_right() -> None:
    chosen = [scenario for scenario in SCENARIOS if scenario.name in ALWAYS]
    assert [
        (outcome.scenario.name, outcome.found) for outcome in run_trial(chosen, seed=1) if not outcome.is_right
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_first_cause_is_right_for_nearly_all_kinds(seed: int) -> None:
    outcomes = list(run_trial(SCENARIOS, seed=seed))
    wrong = [(outcome.scenario.name, outcome.found) for outcome in outcomes if not outcome.is_right]
    assert len(wrong) <= (1 - RIGHT) * len(outcomes), wrong
    assert [(outcome.scenario.name, outcome.missing) for outcome in outcomes if outcome.missing] == []


@pytest.mark.parametrize(
    ("namespaces", "least"), [pytest.param(1, 100, id="few"), pytest.param(6, 1000, id="many", marks=pytest.mark.slow)]
)
def test_nothing_is_wrong_with_healthy_objects(namespaces: int, least: int) -> None:
    reports = list(run_healthy(seed=3, namespaces=namespaces))
    assert len(reports) >= least
    assert [(report.moment, report.explanation.summary) for report in reports if report.is_false] == []
