"""Simulation trial of the PodCertificateRequest cleaner, which deletes every request some time after its creation."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from kcm.actors.controllers.certificates.pod_request_cleaner import LIFE, POD_CERTIFICATE_REQUESTS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.certificates import OnlyOldPodRequestsAreCleaned
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, name_of
from kcm.runtime.simulation.keys import request_der


def request(name: str) -> Object:
    spec = {
        "signerName": "example.com/signer",
        "podName": "web",
        "podUID": "1",
        "serviceAccountName": "default",
        "serviceAccountUID": "2",
        "nodeName": "hollow-node-0",
        "nodeUID": "3",
        "stubPKCS10Request": base64.b64encode(request_der("")).decode(),
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("pod certificate actions")
    for number, at in enumerate(scenario.times(chance, chance.randint(1, 2))):
        yield create(at, POD_CERTIFICATE_REQUESTS, request(f"pod-request-{number}"))


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for pod_request in cluster.shown(POD_CERTIFICATE_REQUESTS):
        yield f"PodCertificateRequest {name_of(pod_request)} still exists"


TRIAL = Trial(
    controller="podcertificaterequest-cleaner-controller",
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda cluster, _options: (OnlyOldPodRequestsAreCleaned(cluster, LIFE),),
    deletes=(POD_CERTIFICATE_REQUESTS,),
)
