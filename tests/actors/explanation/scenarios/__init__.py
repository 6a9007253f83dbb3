"""Scenarios of the trial, by domain."""

from __future__ import annotations

from tests.actors.explanation.scenario import Scenario
from tests.actors.explanation.scenarios import containers, deletion, manager, scheduling, workloads

SCENARIOS: tuple[Scenario, ...] = (
    *containers.SCENARIOS,
    *scheduling.SCENARIOS,
    *workloads.SCENARIOS,
    *deletion.SCENARIOS,
    *manager.SCENARIOS,
)
