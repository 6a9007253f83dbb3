"""Simulation trial of the controller that approves CertificateSigningRequests of kubelets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.certificates.shared.requests import CERTIFICATE_SIGNING_REQUESTS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.certificates import OnlyKubeletsAreApproved
from kcm.actors.simulation.trials.actions import delete
from kcm.actors.simulation.trials.certificates.requesters import (
    FIRST,
    FORGED,
    GREEDY,
    OWN,
    kind_of,
    request_certificate,
)
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import name_of


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Kubelets request their first certificate or a renewal; impostors imitate them; some requests have too many usages.
    """
    chance = scenario.chance("certificate approving actions")
    for number, at in enumerate(scenario.times(chance, chance.choice((0, 1, 2, 4)))):
        kind = chance.choice((OWN, OWN, FIRST, FORGED, GREEDY))
        name = f"{kind.name}-{number}"
        yield request_certificate(at, kind, name)
        if chance.random() < 0.2:
            yield delete(min(at + 5.0, scenario.seconds), CERTIFICATE_SIGNING_REQUESTS, name)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for request in cluster.shown(CERTIFICATE_SIGNING_REQUESTS):
        kind = kind_of(name_of(request))
        if kind is not None and kind.approves and not (request.get("status") or {}).get("conditions"):
            yield f"request {name_of(request)} is not approved"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the names of the undecided requests. Decided ones are deleted at a time that depends on the clock."""
    requests = cluster.list(CERTIFICATE_SIGNING_REQUESTS)
    undecided = [name_of(request) for request in requests if not (request.get("status") or {}).get("conditions")]
    return {"undecided requests for certificates": sorted(undecided)}


TRIAL = Trial(
    controller="certificatesigningrequest-approving-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (OnlyKubeletsAreApproved(cluster),),
)
