"""Number of writes of slices and Endpoints during a rolling update of 500 pods behind a Service, with the real manager
and with ours, from the server's audit log. The numbers vary, because the changes in one write depend on timing.

Slices and Endpoints in alternating runs on a busy machine with two cores:
kube-controller-manager 71 and 28, 64 and 37, 65 and 31; kcm 64 and 34, 62 and 38, 62 and 35.
docs/decisions/2026-11-23-slices-leave-changes-time-to-gather.md has more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.bench.writes import audit_flags, audit_log, writes_in, writes_until_quiet
from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import CONTROLLERS, OF_SERVICES, hollow_nodes, managing
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

PODS, NODES = 500, 12
FLAGS = ("--kube-api-qps=1000", "--kube-api-burst=1000", f"--controllers={','.join((*CONTROLLERS, *OF_SERVICES))}")
RESOURCES = ("endpointslices", "endpoints")
SPREAD = 1.15  # of the sum between two runs; how it divides between the two varies by more


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    assets = assets_or_skip()
    directory = tmp_path_factory.mktemp("audited")
    with (
        real_server(directory, assets, *audit_flags(directory)) as server,
        hollow_nodes(server.kubeconfig, directory / "hollow.log", nodes=NODES),
    ):
        yield server


def writes_of_a_rollout(server: RealServer, namespace: str, pods: int = PODS) -> Counter[str]:
    """Return the number of writes by resource. The manager runs already."""
    kubectl = in_namespace(server.kubeconfig, namespace)
    kubectl("create", "deployment", "web", "--image=web:1", f"--replicas={pods}", "--port=80")
    kubectl("expose", "deployment", "web")
    until_complete(kubectl, pods)
    before = writes_until_quiet(audit_log(server.directory), namespace=namespace)
    kubectl("set", "image", "deployment/web", "web=web:2")
    until_complete(kubectl, pods)
    writes_until_quiet(audit_log(server.directory), namespace=namespace)
    found = writes_in(audit_log(server.directory).read_text(), namespace=namespace) - before
    kubectl("delete", "deployment,service", "--all", "--wait=false")
    kubectl("delete", "replicasets,pods", "--all", "--wait=false")
    return Counter({what: sum(n for name, n in found.items() if name.endswith(f" {what}")) for what in RESOURCES})


def until_complete(kubectl: Kubectl, pods: int) -> None:
    done = kubectl.run("rollout", "status", "deployment/web", "--timeout=300s", timeout=320.0)
    assert done.returncode == 0, f"{pods} pods: {done.stdout[-500:]}{done.stderr}"


def test_a_rollout_costs_no_more_writes_than_with_the_real_one(audited: RealServer) -> None:
    with real_manager(audited, *FLAGS):
        real = writes_of_a_rollout(audited, "rollout-real")
    with managing(audited.directory / "kcm.log", f"--kubeconfig={audited.kubeconfig}", "--leader-elect=false", *FLAGS):
        ours = writes_of_a_rollout(audited, "rollout-ours")
    print(f"a rollout of {PODS} pods: the real one {dict(real)}, ours {dict(ours)}")
    assert all(ours[what] for what in RESOURCES), dict(ours)
    assert ours.total() <= real.total() * SPREAD, (dict(real), dict(ours))
