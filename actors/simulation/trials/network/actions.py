"""User actions on Services: create, change, delete and recreate them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from kcm.actors.simulation.trials.actions import create, delete, merge
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.workloads.actions import NAMES
from kcm.protocols.objects import Object, make_key
from kcm.protocols.resources import SERVICES

NAME = "front"
TOPOLOGY_MODE = "service.kubernetes.io/topology-mode"
DISTRIBUTIONS = (None, "PreferClose", "PreferSameZone", "PreferSameNode")
PORTS: tuple[list[Object], ...] = (
    [{"name": "", "port": 80, "protocol": "TCP", "targetPort": 80}],
    [{"name": "", "port": 81, "protocol": "TCP", "targetPort": 8080}],
    [
        {"name": "web", "port": 80, "protocol": "TCP", "targetPort": 80},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
    ],
    [{"name": "web", "port": 80, "protocol": "TCP", "targetPort": "web"}],  # the name of a port that no pod has
)


def services(scenario: Scenario) -> Iterator[Action]:
    """Yield the actions on one or two Services, in random order."""
    chance = scenario.chance("service actions")
    for name in scenario.names(chance, NAME, 2):
        user = ServiceUser(chance, name)
        changes = (
            user.reselect,
            user.reselect,
            user.publish,
            user.change_ports,
            user.change_ports,
            user.distribute,
            user.label,
        )
        yield from scenario.life(chance, make=user.make, changes=changes, remove=user.remove, at=1.0, most=5)


class ServiceUser:
    """User actions on one Service."""

    def __init__(self, chance: random.Random, name: str) -> None:
        self._chance, self._name, self._key = chance, name, make_key(NAMESPACE, name)

    def make(self, at: float) -> Iterator[Action]:
        chance = self._chance
        spec: Object = {"selector": self._selector(), "ports": chance.choice(PORTS)}
        if chance.random() < 0.3:
            spec["clusterIP"] = "None"
        if chance.random() < 0.2:
            spec["publishNotReadyAddresses"] = True
        yield create(at, SERVICES, {"metadata": {"name": self._name, "namespace": NAMESPACE}, "spec": spec})

    def remove(self, at: float) -> Iterator[Action]:
        yield delete(at, SERVICES, self._key)

    def reselect(self, at: float) -> Iterator[Action]:
        selector = self._selector()
        yield self._merge(at, {"spec": {"selector": selector}}, f"selects {selector}")

    def publish(self, at: float) -> Iterator[Action]:
        every = self._chance.random() < 0.5
        yield self._merge(at, {"spec": {"publishNotReadyAddresses": every}}, f"publishNotReadyAddresses {every}")

    def change_ports(self, at: float) -> Iterator[Action]:
        ports = self._chance.choice(PORTS)
        yield self._merge(at, {"spec": {"ports": ports}}, f"ports {[port['targetPort'] for port in ports]}")

    def distribute(self, at: float) -> Iterator[Action]:
        """Set trafficDistribution, and the annotation for the topology mode."""
        mode = "Auto" if self._chance.random() < 0.3 else None
        distribution = self._chance.choice(DISTRIBUTIONS)
        changes = {"metadata": {"annotations": {TOPOLOGY_MODE: mode}}, "spec": {"trafficDistribution": distribution}}
        yield self._merge(at, changes, f"traffic distribution {distribution}, topology mode {mode}")

    def label(self, at: float) -> Iterator[Action]:
        tier = self._chance.choice(("front", "back", None))
        yield self._merge(at, {"metadata": {"labels": {"tier": tier}}}, f"tier {tier}")

    def _merge(self, at: float, changes: Object, text: str) -> Action:
        return merge(at, SERVICES, self._key, changes, text)

    def _selector(self) -> dict[str, str]:
        return {"app": self._chance.choice(tuple(NAMES.values()))}
