"""Jobs with kcm and with kube-controller-manager, on one kube-apiserver: the same statuses with
their conditions in the same order, the same pods, the same events.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Site, in_namespace
from tests.e2e.jobs import left, scene
from tests.e2e.kubectl import Kubectl
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.snapshots import Snapshot, differences

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]


def comes_to(kubectl: Kubectl) -> Snapshot:
    scene(kubectl)
    return left(kubectl)


@pytest.fixture(scope="module")
def with_the_real_one(real: RealServer) -> Snapshot:
    with real_manager(real, "--controllers=job-controller"):
        return comes_to(in_namespace(real.kubeconfig, "jobs-real"))


def test_jobs_are_the_same_as_with_kube_controller_manager(with_the_real_one: Snapshot, on_real: Site) -> None:
    found = differences(with_the_real_one, comes_to(on_real.namespace("jobs-ours")))
    if found:
        pytest.fail(found, pytrace=False)
