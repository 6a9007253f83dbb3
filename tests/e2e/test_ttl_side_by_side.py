"""TTL of finished Jobs with the real kube-controller-manager and with ours, on one kube-apiserver.

No garbage collector runs, so that a Job that was deleted in the foreground still exists and can be compared.
"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.finished_jobs import left, scene
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import CONTROLLERS, managing, until
from tests.e2e.real_server import RealServer, real_manager

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

NAME = "ttl-after-finished-controller"
GOING = (True, ["foregroundDeletion"])
STAYING = (False, [])
LEFT = {"now": GOING, "failed": GOING, "later": STAYING, "never": STAYING, "running": STAYING}


def comes_to(kubectl: Kubectl) -> None:
    scene(kubectl)
    until(lambda: left(kubectl) == LEFT, "two are being deleted", why=lambda: str(left(kubectl)))


def test_the_same_jobs_go_in_the_same_way(real: RealServer) -> None:
    with real_manager(real, f"--controllers={NAME}"):
        comes_to(in_namespace(real.kubeconfig, "finished-real"))
    controllers = ",".join((*CONTROLLERS, NAME))
    flags = (f"--kubeconfig={real.kubeconfig}", "--leader-elect=false", f"--controllers={controllers}")
    with managing(real.directory / "finished.log", *flags):
        comes_to(in_namespace(real.kubeconfig, "finished-ours"))
