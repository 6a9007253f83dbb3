"""Simulation trial of the controller that signs CertificateSigningRequests: the authority is replaced meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.certificates.shared.requests import CERTIFICATE_SIGNING_REQUESTS
from kcm.actors.controllers.certificates.signing.reconciler import SigningError
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.certificates import SignedAsApproved
from kcm.actors.simulation.trials.certificates.keys import authority_files, first_pair, second_pair
from kcm.actors.simulation.trials.certificates.requesters import (
    CLIENT,
    FOREIGN,
    NAMELESS,
    SERVER,
    SERVING,
    decide,
    kind_of,
    request_certificate,
)
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import name_of


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users and kubelets create requests, which are approved or denied, and the certificate authority is replaced.
    """
    chance = scenario.chance("certificate signing actions")
    for number, at in enumerate(scenario.times(chance, chance.randint(1, 3))):
        kind = chance.choice((CLIENT, CLIENT, SERVING, NAMELESS, SERVER, FOREIGN))
        name = f"{kind.name}-{number}"
        spec = {"expirationSeconds": chance.choice((600, 86400))} if chance.random() < 0.5 else {}
        yield request_certificate(at, kind, name, **spec)
        if chance.random() < 0.9:
            yield decide(at + 1.0, name, chance.choice(("Approved", "Approved", "Denied")))
    if chance.random() < 0.4:
        [at] = scenario.times(chance, 1)
        yield from _replace_authority(at)


def _replace_authority(at: float) -> Iterable[Action]:
    """Replace the files of the authority in two steps, so that for a while its certificate does not match its key."""

    def certificate(_cluster: SimulatedCluster) -> bool:
        authority_files().write_certificate(second_pair())
        return True

    def both(_cluster: SimulatedCluster) -> bool:
        authority_files().write(second_pair())
        return True

    yield Action(at, "certificate of the authority is replaced", certificate)
    yield Action(at + 2.0, "key of the authority is replaced", both)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for request in cluster.shown(CERTIFICATE_SIGNING_REQUESTS):
        kind, status = kind_of(name_of(request)), request.get("status") or {}
        types = {condition["type"] for condition in status.get("conditions") or ()}
        if kind is None or "Approved" not in types or kind is FOREIGN:
            continue
        if not status.get("certificate") and "Failed" not in types:
            yield f"request {name_of(request)} is approved, but neither issued nor failed"


TRIAL = Trial(
    controller="certificatesigningrequest-signing-controller",
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda _cluster, _options: (
        SignedAsApproved((first_pair(), second_pair()), current=lambda: authority_files().read()),
    ),
    raises=(SigningError,),  # if a manager starts while only one of the two files is replaced
)
