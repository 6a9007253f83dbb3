"""Leader migration of a running manager, and its errors beside those of the real kube-controller-manager."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.actors.simulation.trials.identity.key import key_file
from kcm.runtime.apiserver.process.launch import EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.actors.app.test_leader_migration import ALPHA, INVALID, V1
from tests.e2e.kubectl import Api
from tests.e2e.programs import ending, run_kcm, until
from tests.e2e.real_server import assets_or_skip

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
        until(lambda: '"controller ready" controller="deployment-controller"' in text(), "it works", why=text)
        assert set(holders()) == {"kube-controller-manager", "migration"}
        assert len(set(holders().values())) == 1
        assert manager.metric("leader_election_master_status", name="migration") == 1
        assert 'controller="replicaset-controller"' not in text(), "another component runs it"
        starts = ["starting leader migration", "starting main controllers.", "starting migrated controllers."]
        assert [text().index(start) for start in starts] == sorted(text().index(start) for start in starts)
        assert manager.program.terminate() == 0
        assert set(holders().values()) == {""}


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
