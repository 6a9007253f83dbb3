"""Setting whose odd seeds fail: they create an object that counts as unsettled. Other processes import it by name."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.protocols.objects import name_of
from tests.support.census import CONFIGMAPS


def actions(scenario: Scenario) -> Iterator[Action]:
    for at, name in enumerate("abc" if scenario.number % 2 else "ac", start=1):
        yield create(at, CONFIGMAPS, {"metadata": {"name": name}})


def unsettled(cluster: SimulatedCluster) -> list[str]:
    return [f"{name_of(configmap)} is there" for configmap in cluster.list(CONFIGMAPS) if name_of(configmap) == "b"]


SETTING = Setting(
    name="tests.faults.odd_seeds:SETTING",
    controllers=(),
    trials=(),
    actions=actions,
    unsettled=unsettled,
    faults=5.0,
    settled=5.0,
)
