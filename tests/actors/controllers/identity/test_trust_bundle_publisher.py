"""Trust bundle publisher: upstream's cases in a simulated cluster.

Cases: kubernetes v1.36 pkg/controller/certificates/clustertrustbundlepublisher/publisher_test.go.
"""

from __future__ import annotations

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.identity.trust_bundle_publisher import SIGNER, SPEC, TOTAL, bundle_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.processes import AUTHORITY
from kcm.actors.simulation.trials.identity.trust_bundle_publisher import BUNDLES, OLD
from kcm.protocols.objects import Object, name_of
from tests.actors.controllers.nodes.objects import writes

NAME = bundle_name(AUTHORITY)
OPTIONS = read_options(["--feature-gates=ClusterTrustBundle=true"])
OTHER = "example.com/signer"


def bundle(name: str, text: str, signer: str = SIGNER) -> Object:
    return {"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": text}}


def test_bundle_name_contains_signer_and_hash() -> None:
    # The first twelve bytes of its SHA-256.
    assert bundle_name(b"test-bundle") == "kubernetes.io:kube-apiserver-serving:757b08dc9883f53ec0609f1d"


@pytest.mark.parametrize(
    ("found", "written", "left"),
    [
        ([], ["POST"], [NAME]),
        ([bundle(NAME, AUTHORITY.decode())], [], [NAME]),
        ([bundle(NAME, OLD)], ["PUT"], [NAME]),
        ([bundle(bundle_name(b"before"), OLD)], ["POST", "DELETE"], [NAME]),
        (
            [bundle(NAME, OLD), bundle(bundle_name(b"before"), OLD), bundle(bundle_name(b"long before"), OLD)],
            ["DELETE", "DELETE", "PUT"],
            [NAME],
        ),
        ([bundle("example.com:signer:x", OLD, OTHER)], ["POST"], ["example.com:signer:x", NAME]),
        ([bundle("nobodys", OLD, "")], ["POST"], [NAME, "nobodys"]),
    ],
)
def test_one_bundle_of_the_signer_remains(
    cluster: SimulatedCluster, found: list[Object], written: list[str], left: list[str]
) -> None:
    for existing in found:
        cluster.create(BUNDLES, existing)
    manager = cluster.manager(controllers=[SPEC], options=OPTIONS)
    cluster.run_for(60.0)
    client = "kube-apiserver-serving-clustertrustbundle-publisher"
    assert sorted(write.what.split()[0] for write in writes(cluster, client=client)) == sorted(written)
    assert [name_of(bundle) for bundle in cluster.list(BUNDLES)] == left
    kept = cluster.get(BUNDLES, NAME)
    assert kept is not None
    assert kept["spec"] == {"signerName": SIGNER, "trustBundle": AUTHORITY.decode()}
    assert manager.metrics.counter(TOTAL, "200").value > 0


def test_deleted_bundle_is_published_again(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC], options=OPTIONS)
    cluster.run_for(30.0)
    cluster.delete(BUNDLES, NAME)
    assert cluster.run_until(lambda: cluster.get(BUNDLES, NAME) is not None, within=5.0)
