"""Simulation trial of the controller that creates the service account "default" in each namespace."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.identity.service_accounts import NAME
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.identity.actions import active_namespaces, create_and_delete_namespaces, if_exists
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import make_key
from kcm.protocols.resources import SERVICE_ACCOUNTS


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions: create and delete namespaces, and delete some of the service accounts."""
    yield from create_and_delete_namespaces(scenario, "accounts")
    chance = scenario.chance("service account actions")
    for at in scenario.times(chance, chance.randint(0, 3)):
        key = make_key(chance.choice(("default", "kube-system", "team-a-accounts")), NAME)
        yield if_exists(at, SERVICE_ACCOUNTS, key, None, "deleted")


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for namespace in active_namespaces(cluster):
        if cluster.get(SERVICE_ACCOUNTS, make_key(namespace, NAME)) is None:
            yield f"namespace {namespace} has no service account {NAME}"


TRIAL = Trial(controller="serviceaccount-controller", actions=_actions, unsettled=_unsettled)
