"""Simulation trial of the controller that publishes the API server's CA as a ClusterTrustBundle."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.identity.trust_bundle_publisher import GROUP, PLURAL, SIGNER, bundle_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.processes import AUTHORITY
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.identity.actions import if_exists
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, name_of
from kcm.protocols.resources import Resource

BUNDLES = Resource(group=GROUP, version="v1beta1", plural=PLURAL, kind="ClusterTrustBundle", namespaced=False)
OURS = bundle_name(AUTHORITY)
OTHERS = "example.com:mine:one"  # a bundle of another signer, which must not be deleted
# Certificate of a former authority.
OLD = """-----BEGIN CERTIFICATE-----
MIIBJTCBzKADAgECAgEBMAoGCCqGSM49BAMCMBExDzANBgNVBAMMBmJlZm9yZTAg
Fw0yNjAxMDEwMDAwMDBaGA8yMTI2MDEwMTAwMDAwMFowETEPMA0GA1UEAwwGYmVm
b3JlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEmzwd/AV1PUWoOZ3UyT26ST7u
8DTUL0Dxyfx3OTlXSPJJc//F/6ynWzyfgstefWMKhZ3UlPtq3gwkFCWgfxQSSaMT
MBEwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiA/yF2lISQHhpiU
dAU5GpWSQweD8IBcX5jPsWLGLfF1/QIhALSKU+sWrcKmaM1JHdAmx5aG2ifSoH4y
OxEj+/67ckkp
-----END CERTIFICATE-----
"""


def _bundle(name: str, signer: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": OLD}}


def _actions(scenario: Scenario) -> Iterable[Action]:
    """Return the user actions of a scenario.

    Users create a bundle of a former authority and one of another signer, and falsify or delete the published bundle.
    """
    chance = scenario.chance("trust bundle actions")
    times = scenario.times(chance, 4)
    if chance.random() < 0.5:
        yield create(times[0], BUNDLES, _bundle(bundle_name(OLD.encode()), SIGNER))
    yield create(times[1], BUNDLES, _bundle(OTHERS, "example.com/mine"))
    for at in times[2:]:
        if chance.random() < 0.5:
            yield if_exists(at, BUNDLES, OURS, None, "deleted")
        else:
            yield if_exists(at, BUNDLES, OURS, {"spec": {"trustBundle": OLD}}, "falsified")


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    found = cluster.get(BUNDLES, OURS)
    if found is None or found["spec"]["trustBundle"] != AUTHORITY.decode():
        yield f"{OURS} is {found}"
    for bundle in cluster.shown(BUNDLES):
        if bundle["spec"].get("signerName") == SIGNER and name_of(bundle) != OURS:
            yield f"{name_of(bundle)} still exists, for a former authority"


TRIAL = Trial(
    controller="kube-apiserver-serving-clustertrustbundle-publisher-controller",
    actions=_actions,
    unsettled=_unsettled,
    deletes=(BUNDLES,),
)
