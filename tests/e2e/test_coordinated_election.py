"""Coordinated leader election: the API server chooses the leader among the candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api, Object
from tests.e2e.programs import Manager, ending, free_port, run_kcm, spawn, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server

GATE = "--feature-gates=CoordinatedLeaderElection=true"
SERVER_FLAGS = (GATE, "--runtime-config=coordination.k8s.io/v1beta1=true")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
CANDIDATES = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates"
FLAGS = ("--controllers=deployment-controller", GATE)


def candidates(api: Api) -> dict[str, Object]:
    return {found["metadata"]["name"]: found["spec"] for found in api.get(CANDIDATES)["items"]}


def lease(api: Api) -> Object:
    spec: Object = api.get(LEASE)["spec"]
    return spec


def identity(manager: Manager) -> str:
    """Return the identity of a manager, from the line about its term."""
    (line, *_) = (line for line in manager.program.text().splitlines() if '"Successfully acquired lease"' in line)
    return line.partition('identity="')[2].partition('"')[0]


def start(server: RealServer, name: str, *flags: str) -> Manager:
    return run_kcm(server.directory / f"{name}.log", f"--kubeconfig={server.manager_kubeconfig}", *FLAGS, *flags)


def leads(manager: Manager) -> bool:
    assert manager.program.running, manager.program.text()
    return manager.metric("leader_election_master_status") == 1


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_server_elects_the_candidate_with_the_oldest_emulation_version(tmp_path: Path) -> None:
    with real_server(tmp_path, assets_or_skip(), *SERVER_FLAGS) as server:
        api = Api(server.kubeconfig)
        first = start(server, "first", "--leader-elect-on-loss=standby")
        with ending(first.program):
            until(lambda: leads(first), "the only candidate leads", why=first.program.text)
            (name,) = candidates(api)
            assert lease(api)["holderIdentity"] == name == identity(first)
            assert lease(api)["strategy"] == "OldestEmulationVersion"
            spec = candidates(api)[name]
            versions = (spec["binaryVersion"], spec["emulationVersion"], spec["strategy"], spec["leaseName"])
            assert versions == ("1.36.2", "1.36.0", "OldestEmulationVersion", "kube-controller-manager")
            older = start(server, "older", "--emulated-version=1.35")
            with ending(older.program):
                # The server pings the candidates, ends the term of the first one, and names the other one.
                until(lambda: leads(older), "the older one leads", within=90.0, why=older.program.text)
                text = first.program.text()
                assert "the API server ends the term in favour of" in text
                assert "leaderelection lost, standing by again" in text
                assert not leads(first)
                assert lease(api)["holderIdentity"] == identity(older)
                assert "pingTime" in candidates(api)[name], "the server pinged the first one, which responded"
                assert older.program.terminate() == 0
            until(lambda: leads(first), "the remaining candidate leads again", within=90.0, why=first.program.text)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_server_elects_among_ours_and_the_real_manager(tmp_path: Path) -> None:
    assets = assets_or_skip()
    with real_server(tmp_path, assets, *SERVER_FLAGS) as server:
        api = Api(server.kubeconfig)
        ours = start(server, "ours")
        with ending(ours.program):
            until(lambda: leads(ours), "the only candidate leads", why=ours.program.text)
            command = [
                str(assets / "kube-controller-manager"),
                f"--kubeconfig={server.manager_kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={free_port()}",
                f"--flex-volume-plugin-dir={tmp_path / 'flex'}",
                *FLAGS,
            ]
            with ending(spawn(command, tmp_path / "real.log")) as real:
                until(lambda: len(candidates(api)) == 2, "both are candidates", why=real.text)

                def without_times(spec: Object) -> dict[str, Any]:
                    return {name: value for name, value in spec.items() if not name.endswith("Time")}

                first_spec, second_spec = map(without_times, candidates(api).values())
                assert first_spec == second_spec
                assert ours.program.terminate() == 0
                until(lambda: "Successfully acquired lease" in real.text(), "the real one leads", why=real.text)


def test_missing_api_is_reported(tmp_path: Path) -> None:
    server = launch(ServerSettings(directory=tmp_path / "kcm"))
    try:
        manager = run_kcm(tmp_path / "kcm.log", f"--kubeconfig={server.kubeconfig}", *FLAGS)
        with ending(manager.program):

            def reported() -> bool:
                return (
                    "informer-sync" in manager.get("/healthz?verbose")[1]
                    and "leasecandidates" in manager.program.text()
                )

            until(reported, "it is reported", why=manager.program.text)
            assert not leads(manager)
            print(manager.get("/healthz?verbose")[1])
            print(manager.program.text())
    finally:
        server.stop()
