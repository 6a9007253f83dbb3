"""Simulation trial of the controller that publishes the ConfigMap kube-root-ca.crt in each namespace."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.identity.root_ca_publisher import ANNOTATION, DATA_KEY, NAME
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.processes import AUTHORITY
from kcm.actors.simulation.trials.identity.actions import active_namespaces, create_and_delete_namespaces, if_exists
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import annotations_of, make_key
from kcm.protocols.resources import CONFIGMAPS

CHANGES = (
    ({"data": {DATA_KEY: "other"}}, "falsified"),
    ({"data": {"more": "x"}}, "given more data"),
    ({"data": None}, "emptied"),
    ({"metadata": {"annotations": {ANNOTATION: None}}}, "left without its annotation"),
    ({"metadata": {"annotations": {ANNOTATION: "in other words"}}}, "given another annotation"),
    (None, "deleted"),
)


def _actions(scenario: Scenario) -> Iterable[Action]:
    yield from create_and_delete_namespaces(scenario, "roots")
    chance = scenario.chance("root certificate actions")
    for at in scenario.times(chance, chance.randint(0, 4)):
        key = make_key(chance.choice(("default", "kube-public", "team-a-roots")), NAME)
        changes, text = chance.choice(CHANGES)
        yield if_exists(at, CONFIGMAPS, key, changes, text)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for namespace in active_namespaces(cluster):
        found = cluster.get(CONFIGMAPS, make_key(namespace, NAME))
        if found is None:
            yield f"namespace {namespace} has no {NAME}"
        elif found.get("data") != {DATA_KEY: AUTHORITY.decode()} or not annotations_of(found).get(ANNOTATION):
            yield f"{NAME} of namespace {namespace} is {found.get('data')}, {annotations_of(found)}"


TRIAL = Trial(controller="root-ca-certificate-publisher-controller", actions=_actions, unsettled=_unsettled)
