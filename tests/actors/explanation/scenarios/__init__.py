"""Scenarios of the trial, by domain."""

from __future__ import annotations

from tests.actors.explanation.scenario import Scenario
from tests.actors.explanation.scenarios import (
    batch,
    chains,
    containers,
    deletion,
    faults,
    kubelets,
    manager,
    network,
    new_objects,
    placement,
    removal,
    scheduling,
    server,
    storage,
    workloads,
)

SCENARIOS: tuple[Scenario, ...] = (
    *containers.SCENARIOS,
    *scheduling.SCENARIOS,
    *workloads.SCENARIOS,
    *deletion.SCENARIOS,
    *removal.SCENARIOS,
    *batch.SCENARIOS,
    *network.SCENARIOS,
    *storage.SCENARIOS,
    *placement.SCENARIOS,
    *kubelets.SCENARIOS,
    *server.SCENARIOS,
    *chains.SCENARIOS,
    *new_objects.SCENARIOS,
    *manager.SCENARIOS,
    *faults.SCENARIOS,
)
