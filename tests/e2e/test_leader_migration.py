"""Leader migration of a running manager, and its errors beside those of the real kube-controller-manager."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcm.actors.simulation.trials.identity.key import key_file
from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.actors.app.test_leader_migration import ALPHA, INVALID, V1
from tests.e2e.kubectl import Api
from tests.e2e.programs import Program, ending, free_port, run_kcm, spawn, until
from tests.e2e.real_server import assets_or_skip, real_server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
# The names in the default configuration are not those of today's controllers.
CONFIGURATION = f"""{V1}leaderName: migration
controllerLeaders:
- {{name: deployment-controller, component: kube-controller-manager}}
- {{name: replicaset-controller, component: cloud-controller-manager}}
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: none, user: {token: none}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
"""
FAILED = re.compile(r'"command failed" err(?:or)?=(?:"((?:[^"\\]|\\.)*)"|<\n(.*?)\n >)', re.DOTALL)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    started = launch(ServerSettings(directory=tmp_path / "kcm"))
    yield started
    started.stop()


def test_migrated_controller_runs_under_its_own_lease(server: EmbeddedServer, tmp_path: Path) -> None:
    (tmp_path / "migration.yml").write_text(CONFIGURATION)
    manager = run_kcm(
        tmp_path / "kcm.log",
        f"--kubeconfig={server.kubeconfig}",
        "--controllers=deployment-controller,replicaset-controller,namespace-controller",
        f"--service-account-private-key-file={key_file()}",
        "--enable-leader-migration",
        f"--leader-migration-config={tmp_path / 'migration.yml'}",
    )
    api, text = Api(server.kubeconfig), manager.program.text

    def holders() -> dict[str, str]:
        return {lease["metadata"]["name"]: lease["spec"]["holderIdentity"] for lease in api.get(LEASES)["items"]}

    with ending(manager.program):
        until(lambda: '"Caches are synced" controller="deployment-controller"' in text(), "it works", why=text)
        assert set(holders()) == {"kube-controller-manager", "migration"}
        assert len(set(holders().values())) == 1
        assert manager.metric("leader_election_master_status", name="migration") == 1
        assert 'starting..." controller="replicaset-controller"' not in text(), "another component runs it"
        starts = ["starting leader migration", "starting main controllers.", "starting migrated controllers."]
        assert [text().index(start) for start in starts] == sorted(text().index(start) for start in starts)
        assert manager.program.terminate() == 0
        assert set(holders().values()) == {""}


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_both_leases_are_handed_over_between_ours_and_the_real_manager(tmp_path: Path) -> None:
    assets = assets_or_skip()
    (tmp_path / "migration.yml").write_text(CONFIGURATION)
    with real_server(tmp_path, assets) as server:
        flags = (
            f"--kubeconfig={server.kubeconfig}",
            "--controllers=deployment-controller,replicaset-controller,namespace-controller",
            f"--service-account-private-key-file={server.directory / 'sa.key'}",
            "--enable-leader-migration",
            f"--leader-migration-config={tmp_path / 'migration.yml'}",
        )
        api, number = Api(server.kubeconfig), itertools.count(1)

        def holders() -> dict[str, str]:
            return {lease["metadata"]["name"]: lease["spec"]["holderIdentity"] for lease in api.get(LEASES)["items"]}

        def real() -> Program:
            command = [
                str(assets / "kube-controller-manager"),
                "--bind-address=127.0.0.1",
                f"--secure-port={free_port()}",
                f"--flex-volume-plugin-dir={tmp_path / 'flex'}",
                *flags,
            ]
            return spawn(command, tmp_path / f"real-{next(number)}.log")

        def has_both(text: Callable[[], str], acquired: str) -> None:
            until(lambda: text().count(acquired) == 2, "it holds both Leases", why=text)
            assert {holders()["kube-controller-manager"]} == {holders()["migration"]}

        with ending(real()) as first:
            has_both(first.text, "Successfully acquired lease")
            ours = run_kcm(tmp_path / "ours.log", *flags)
            with ending(ours.program):
                until(
                    lambda: ours.program.text().count('"Caches populated"') >= 3, "it stands by", why=ours.program.text
                )
                assert '"Successfully acquired lease"' not in ours.program.text()
                first.kill()
                has_both(ours.program.text, '"Successfully acquired lease"')
                with ending(real()) as second:
                    until(
                        lambda: "Attempting to acquire leader lease" in second.text(), "it stands by", why=second.text
                    )
                    assert ours.program.terminate() == 0
                    has_both(second.text, "Successfully acquired lease")


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_invalid_files_have_the_errors_of_the_real_manager(tmp_path: Path) -> None:
    binary = assets_or_skip() / "kube-controller-manager"
    kubeconfig, file = tmp_path / "kubeconfig", tmp_path / "migration.yml"
    kubeconfig.write_text(KUBECONFIG)
    flags = [f"--kubeconfig={kubeconfig}", "--secure-port=0", "--enable-leader-migration"]
    for content, expected in INVALID.items():
        if content.startswith(ALPHA) and "endpoints" in content:
            continue  # upstream ends later, when it competes for the lock
        file.write_text(content)
        command = [str(binary), *flags, f"--leader-migration-config={file}"]
        output = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stderr
        found = FAILED.search(output)
        assert found is not None, output
        text = found[1].replace('\\"', '"').replace("\\\\", "\\") if found[1] is not None else found[2]
        assert text.replace("\n\t", "\n").lstrip("\t") == expected
