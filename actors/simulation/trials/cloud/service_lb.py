"""Simulation trial of the controller that creates cloud load balancers for Services."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.cloud.service_lb.load_balancers import (
    FINALIZER,
    has_finalizer,
    is_target,
    wants_load_balancer,
)
from kcm.actors.controllers.cloud.service_lb.reconciler import ingress_of
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.balancers import BalancersAreGuarded
from kcm.actors.simulation.trials.actions import create, delete, merge, unless_gone
from kcm.actors.simulation.trials.nodes.actions import draw_period
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.settings import fake_cloud, options_of
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.nodes import EXCLUDE_BALANCERS, node_facts
from kcm.protocols.objects import Object, is_deleting, make_key, name_of, uid_of
from kcm.protocols.resources import NODES, SERVICES

NAME = "balanced"
TYPES = ("LoadBalancer", "LoadBalancer", "ClusterIP", "NodePort")


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users change the types of one to three Services, and exclude nodes from load balancers, some only for a while.
    """
    chance = scenario.chance("service load balancer actions")
    for name in scenario.names(chance, NAME, 3):
        user = _User(chance, name)
        changes = (user.change_type, user.change_type, user.annotate, user.change_policy)
        yield from scenario.life(chance, make=user.make, changes=changes, remove=user.remove, at=1.0, most=4)
    machines = sorted(scenario.nodes.machines)
    for name in chance.sample(machines, min(len(machines), chance.choice((0, 1, 2)))):
        period = draw_period(scenario, chance)
        yield _exclude(period.at, name, "true", "is excluded from load balancers")
        if period.ends:
            yield _exclude(period.end, name, None, "is included in load balancers again")


def _exclude(at: float, node: str, value: str | None, text: str) -> Action:
    return unless_gone(merge(at, NODES, node, {"metadata": {"labels": {EXCLUDE_BALANCERS: value}}}, text), NODES, node)


class _User:
    """User actions on one Service."""

    def __init__(self, chance: random.Random, name: str) -> None:
        self._chance, self._name, self._key = chance, name, make_key(NAMESPACE, name)

    def make(self, at: float) -> Iterator[Action]:
        spec: Object = {"type": self._chance.choice(TYPES), "ports": [{"port": 80}]}
        if self._chance.random() < 0.2:
            spec |= {"type": "LoadBalancer", "loadBalancerClass": "example.com/other"}
        yield create(at, SERVICES, {"metadata": {"name": self._name, "namespace": NAMESPACE}, "spec": spec})

    def remove(self, at: float) -> Iterator[Action]:
        yield delete(at, SERVICES, self._key)

    def change_type(self, at: float) -> Iterator[Action]:
        kind = self._chance.choice(TYPES)
        changes: Object = {"type": kind, "externalTrafficPolicy": None}
        if kind != "LoadBalancer":
            changes["loadBalancerClass"] = None
        yield merge(at, SERVICES, self._key, {"spec": changes}, f"is of type {kind}")

    def annotate(self, at: float) -> Iterator[Action]:
        speed = self._chance.choice(("slow", "fast"))
        yield merge(at, SERVICES, self._key, {"metadata": {"annotations": {"example.com/speed": speed}}})

    def change_policy(self, at: float) -> Iterator[Action]:
        """Change externalTrafficPolicy, except for a Service of the type ClusterIP."""
        policy = self._chance.choice(("Local", "Cluster"))

        def do(cluster: SimulatedCluster) -> bool:
            service = cluster.get(SERVICES, self._key)
            if service is not None and service["spec"]["type"] != "ClusterIP":
                cluster.merge(SERVICES, self._key, {"spec": {"externalTrafficPolicy": policy}})
            return True

        yield Action(at, f"Service {self._key}: external traffic policy {policy}", do)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    balancers, name = fake_cloud(cluster).load_balancers, options_of(cluster).cloud.cluster_name
    hosts = tuple(sorted(name_of(node) for node in cluster.shown(NODES) if is_target(node_facts(node))))
    wanted = set()
    for service in cluster.shown(SERVICES, NAMESPACE):
        if wants_load_balancer(service) and not is_deleting(service):
            wanted.add(uid_of(service))
            status = balancers.get(name, service) or {}
            if not has_finalizer(service) or ingress_of(service) != (status.get("ingress") or None):
                yield f"{name_of(service)} has {service['metadata'].get('finalizers')} and {ingress_of(service)}"
            elif balancers.nodes.get(uid_of(service)) != hosts:
                yield f"{name_of(service)} is balanced to {balancers.nodes.get(uid_of(service))}, not {hosts}"
        elif has_finalizer(service) or ingress_of(service):
            yield f"{name_of(service)} still has {FINALIZER} or {ingress_of(service)}"
    if set(balancers.nodes) - wanted:
        yield f"load balancers without a Service: {sorted(set(balancers.nodes) - wanted)}"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {
        f"{name_of(service)} is balanced": ingress_of(service) is not None
        for service in cluster.shown(SERVICES, NAMESPACE)
    }


TRIAL = Trial(
    controller="service-lb-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (BalancersAreGuarded(cluster),),
)
