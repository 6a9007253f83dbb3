"""Processes that are killed, stopped or unreachable during a rollout, which completes without surplus pods."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api, Kubectl, Object, PodHistory, pod_history, uid_of
from tests.e2e.programs import (
    CONTROLLERS,
    Manager,
    ending,
    free_port,
    hollow_nodes,
    managing,
    run_kcm,
    stays,
    until,
    until_working,
)
from tests.e2e.scenarios import template, workload

REPLICAS = 8
AWAY = 30.0  # seconds
# One informer probes for all, some 14 times. Each of the three keys of the rollout is tried 13 times, with
# backoff, with one or two writes: 54 to 96 were seen. Informers that each tried by itself would send some 180 more.
MOST_UNANSWERED = 120
# A lease that runs out soon.
LEASE = ("--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s")
LEASE_SECONDS, RETRY_SECONDS = 4.0, 1.0


def slow_deployment(image: str) -> Object:
    """A pod that is ready after a while, so that there is a middle of the rollout."""
    pods = template(image, annotations={"hollow.kcm.dev/ready-after-seconds": "0.3"})
    return workload("Deployment", "web", REPLICAS, image, template=pods)


def start_rollout(kubectl: Kubectl, history: PodHistory) -> None:
    """Roll out web:1, start the rollout of web:2, and return in its middle."""
    kubectl.apply(slow_deployment("web:1"))
    kubectl.until_pods(REPLICAS)
    kubectl.until_complete("web")
    kubectl.apply(slow_deployment("web:2"))
    until(lambda: history.images().count("web:2") >= 3, "the rollout is on its way", why=kubectl.state)


def assert_rolled_out_with_no_pod_too_many(kubectl: Kubectl, history: PodHistory) -> None:
    kubectl.until_pods(REPLICAS, image="web:2")
    kubectl.until_complete("web")
    assert history.images() == ["web:1"] * REPLICAS + ["web:2"] * REPLICAS


@dataclass
class Bare:
    """An embedded API server with hollow nodes and no manager."""

    server: EmbeddedServer
    directory: Path

    @property
    def kubeconfig(self) -> Path:
        return self.server.kubeconfig

    @contextmanager
    def managed(self, *flags: str) -> Iterator[Manager]:
        given = (f"--kubeconfig={self.kubeconfig}", *flags)
        with managing(self.directory / "kcm.log", *given) as manager:
            yield manager

    @contextmanager
    def server_gone(self) -> Iterator[None]:
        """Kill the server, so that connections are refused; at the end, start another on the same port."""
        self.server.child.kill()
        self.server.stop()
        yield
        self.server = launch(
            ServerSettings(directory=self.kubeconfig.parent, port=int(self.server.url.rpartition(":")[2]))
        )

    @contextmanager
    def server_stopped(self) -> Iterator[None]:
        """Stop the server process: connections are accepted, and requests get no response, as behind a partition."""
        os.kill(self.server.child.pid, signal.SIGSTOP)
        yield
        os.kill(self.server.child.pid, signal.SIGCONT)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Bare]:
    started = Bare(launch(ServerSettings(directory=tmp_path / "kcm")), tmp_path)
    try:
        with hollow_nodes(started.kubeconfig, tmp_path / "hollow.log"):
            yield started
    finally:
        os.kill(started.server.child.pid, signal.SIGCONT)
        started.server.stop()


def test_rollout_resumes_after_everything_was_killed(tmp_path: Path) -> None:
    directory, port = tmp_path / "kcm", free_port()
    flags = (f"--embedded-dir={directory}", f"--embedded-port={port}", "--leader-elect=false")
    first = run_kcm(tmp_path / "kcm.log", *flags)
    with ending(first.program):
        until_working(first)
        kubectl = Kubectl(Api(directory / "kubeconfig"), "default")
        with pod_history(kubectl) as history:
            start_rollout(kubectl, history)
            acknowledged = []
            for number in range(50):
                answer = kubectl.api.request("POST", kubectl.path("configmaps"), {"metadata": {"name": f"c{number}"}})
                acknowledged.append(uid_of(answer))
            first.program.kill()
            assert not kubectl.api.alive()
            second = run_kcm(tmp_path / "again.log", *flags)
            with ending(second.program):
                until(kubectl.api.alive, "the server is back", why=second.program.text)
                assert set(acknowledged) <= {uid_of(config) for config in kubectl.items("configmaps")}
                assert_rolled_out_with_no_pod_too_many(kubectl, history)


def test_a_server_that_is_killed_and_comes_back_is_worked_with_again(bare: Bare) -> None:
    kubectl = Kubectl(Api(bare.kubeconfig), "default")
    with bare.managed("--leader-elect=false") as manager, pod_history(kubectl) as history:
        start_rollout(kubectl, history)
        with bare.server_gone():
            until(
                lambda: "API server does not respond" in manager.program.text(),
                "the manager notices",
                why=manager.program.text,
            )
        assert_rolled_out_with_no_pod_too_many(kubectl, history)
        assert manager.program.running


def unanswered(manager: Manager) -> float:
    """Return the number of requests without a response. A watch that is cut while it is open does not count."""
    return manager.metric("rest_client_requests_total", code="<error>")


@pytest.mark.slow
@pytest.mark.parametrize("away", [Bare.server_gone, Bare.server_stopped])
def test_a_server_that_is_away_for_half_a_minute_is_not_stormed(
    bare: Bare, away: Callable[[Bare], AbstractContextManager[None]]
) -> None:
    kubectl = Kubectl(Api(bare.kubeconfig), "default")
    with bare.managed("--leader-elect=false") as manager, pod_history(kubectl) as history:
        start_rollout(kubectl, history)
        with away(bare):
            before = unanswered(manager)
            stays(lambda: manager.program.running, "it waits", seconds=AWAY)
            requests = unanswered(manager) - before
        print(f"{requests:.0f} requests in {AWAY:.0f} s")
        assert requests < MOST_UNANSWERED
        assert_rolled_out_with_no_pod_too_many(kubectl, history)


def leader(kubectl: Kubectl) -> str:
    lease = kubectl.api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager")
    holder: str = lease["spec"]["holderIdentity"]
    return holder


def test_a_standby_takes_over_from_a_leader_that_is_killed_in_a_rollout(bare: Bare) -> None:
    kubectl = Kubectl(Api(bare.kubeconfig), "default")
    with bare.managed(*LEASE) as first, pod_history(kubectl) as history:
        held_by_the_first = leader(kubectl)
        second = run_kcm(bare.directory / "standby.log", f"--kubeconfig={bare.kubeconfig}", *LEASE)
        with ending(second.program):
            until(
                lambda: second.program.text().count('"Caches populated"') >= 4,
                "its tables are warm",
                why=second.program.text,
            )
            start_rollout(kubectl, history)
            assert second.healthy()
            assert second.metric("leader_election_master_status") == 0
            assert "Caches are synced" not in second.program.text()
            warm = second.program.text().count('"Caches populated"')

            first.program.kill()
            assert leader(kubectl) == held_by_the_first
            within = LEASE_SECONDS + 3 * RETRY_SECONDS + 5.0  # and some for a busy machine
            until(
                lambda: leader(kubectl) != held_by_the_first, "the other leads", within=within, why=second.program.text
            )
            assert_rolled_out_with_no_pod_too_many(kubectl, history)
            assert second.metric("leader_election_master_status") == 1
            assert second.program.text().count('"Caches populated"') == warm
            assert "listed again" not in second.program.text()


def test_terminated_manager_releases_its_lease(bare: Bare) -> None:
    kubectl = Kubectl(Api(bare.kubeconfig), "default")
    few = f"--controllers={','.join(CONTROLLERS)}"
    with bare.managed(few) as manager:
        assert leader(kubectl)
        assert manager.program.terminate() == 0
        assert leader(kubectl) == ""
        assert "lease released" in manager.program.text()
    with bare.managed(few):
        assert leader(kubectl), "the next one need not wait for the lease to run out"
