"""Writes of kcm and kube-controller-manager for the same work, in the audit log of the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.bench.writes import audit_flags, audit_log, writes_until_quiet
from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Api, Object
from tests.e2e.programs import CONTROLLERS, managing
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

UNLIMITED = ("--kube-api-qps=1000", "--kube-api-burst=1000")
DEPLOYMENTS, PODS_OF_EACH, LARGE = 20, 10, 200


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    assets = assets_or_skip()
    directory = tmp_path_factory.mktemp("audited")
    with real_server(directory, assets, *audit_flags(directory)) as server:
        yield server


def workload(kind: str, name: str, replicas: int) -> Object:
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def writes(server: RealServer, namespace: str) -> Counter[str]:
    in_namespace(server.kubeconfig, namespace)
    api = Api(server.kubeconfig)
    path = f"/apis/apps/v1/namespaces/{namespace}"
    for number in range(DEPLOYMENTS):
        api.request("POST", f"{path}/deployments", workload("Deployment", f"d{number}", PODS_OF_EACH))
    api.request("POST", f"{path}/replicasets", workload("ReplicaSet", "large", LARGE))
    return writes_until_quiet(audit_log(server.directory), namespace=namespace)


def test_nothing_is_written_more_often_than_the_real_one_writes_it(audited: RealServer) -> None:
    with real_manager(audited, *UNLIMITED):
        real = writes(audited, "real")
    flags = (f"--kubeconfig={audited.kubeconfig}", "--leader-elect=false", f"--controllers={','.join(CONTROLLERS)}")
    with managing(audited.directory / "kcm.log", *flags, *UNLIMITED):
        ours = writes(audited, "ours")
    assert ours["create pods"] == real["create pods"] == DEPLOYMENTS * PODS_OF_EACH + LARGE
    more = {what: (real[what], count) for what, count in ours.items() if count > real[what]}
    assert not more, "by what is written: how often the real one does, and ours"
    assert ours["update replicasets/status"] < real["update replicasets/status"]
    assert ours["update deployments/status"] < real["update deployments/status"]
