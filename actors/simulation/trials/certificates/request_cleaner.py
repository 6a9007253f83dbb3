"""Simulation trial of the CertificateSigningRequest cleaner.

The cleaner runs once an hour. So the trial creates all requests that it must delete before the first of these passes.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.certificates.shared.requests import CERTIFICATE_SIGNING_REQUESTS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.certificates import OnlyOverdueRequestsAreCleaned, is_overdue
from kcm.actors.simulation.trials.certificates.requesters import FOREIGN, decide, request_certificate
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import name_of

HOUR = 3600.0
AGES = (HOUR / 2, 5 * HOUR, 30 * HOUR)  # seconds since the decision; far from the limits, because clocks may jump


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users create requests for a signer outside Kubernetes that were approved or denied some time ago.
    """
    chance = scenario.chance("certificate cleaning actions")
    for number in range(chance.choice((0, 1, 2, 3))):
        name = f"{FOREIGN.name}-old-{number}"
        yield request_certificate(0.0, FOREIGN, name)
        yield decide(0.0, name, chance.choice(("Approved", "Denied", "Denied")), ago=chance.choice(AGES))


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    now = cluster.clock.now()
    for request in cluster.shown(CERTIFICATE_SIGNING_REQUESTS):
        if "-old-" in name_of(request) and is_overdue(request, now=now):
            yield f"request {name_of(request)} is overdue, but not deleted"


TRIAL = Trial(
    controller="certificatesigningrequest-cleaner-controller",
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda cluster, _options: (OnlyOverdueRequestsAreCleaned(cluster),),
    deletes=(CERTIFICATE_SIGNING_REQUESTS,),
)
