"""Authentication and authorization with kubectl on the embedded API server, without controllers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kcm.runtime.apiserver.process.launch import MANAGER, SCHEDULER, EmbeddedServer, launch
from kcm.runtime.apiserver.process.settings import ALWAYS_ALLOW, ServerSettings
from tests.support.certificates import Authority, Pair

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
    pytest.mark.timeout(120),
]
DENIED = 'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"'


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[EmbeddedServer]:
    directory = tmp_path_factory.mktemp("access") / "kcm"
    running = launch(ServerSettings(directory=directory, in_memory=True, client_ca_file=str(authority.file)))
    try:
        yield running
    finally:
        running.stop()


def kubectl(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    flags = (f"--kubeconfig={kubeconfig}", f"--cache-dir={kubeconfig.parent}/cache", "--namespace=default")
    return subprocess.run(["kubectl", *flags, *arguments], capture_output=True, text=True, timeout=60)


def with_certificate(server: EmbeddedServer, directory: Path, pair: Pair) -> Path:
    """A kubeconfig of a user who has no token."""
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def test_user_and_permissions_are_reported(server: EmbeddedServer) -> None:
    whoami = kubectl(server.kubeconfig, "auth", "whoami").stdout
    assert "kubernetes-admin" in whoami
    assert "[system:masters system:authenticated]" in whoami
    assert kubectl(server.kubeconfig, "auth", "can-i", "*", "*").stdout == "yes\n"
    assert kubectl(server.kubeconfig, "auth", "can-i", "list", "pods", "--as=jane").stdout == "no\n"
    own = kubectl(server.kubeconfig, "auth", "can-i", "--list", "--as=jane", "--as-group=system:authenticated").stdout
    assert "selfsubjectaccessreviews.authorization.k8s.io" in own
    assert "secrets" not in own


def test_a_certificate_is_a_user_with_groups(server: EmbeddedServer, authority: Authority, tmp_path: Path) -> None:
    jane = with_certificate(server, tmp_path, authority.issue("jane", groups=("dev",)))
    assert "[dev system:authenticated]" in kubectl(jane, "auth", "whoami").stdout
    assert DENIED in kubectl(jane, "get", "pods").stderr
    bind = ("create", "clusterrolebinding", "dev", "--clusterrole=system:aggregate-to-view", "--group=dev")
    made = kubectl(server.kubeconfig, *bind)
    assert made.returncode == 0, made.stderr
    assert kubectl(jane, "get", "pods").returncode == 0
    assert kubectl(server.kubeconfig, "get", "pods", "--as=jane", "--as-group=dev").returncode == 0
    assert DENIED in kubectl(server.kubeconfig, "get", "pods", "--as=jane", "--as-group=ops").stderr
    given = kubectl(jane, "create", "role", "r", "--verb=create", "--resource=pods").stderr
    assert 'roles.rbac.authorization.k8s.io is forbidden: User "jane" cannot create resource "roles"' in given
    assert "cannot impersonate" in kubectl(jane, "get", "pods", "--as=root").stderr


@pytest.mark.parametrize(("user", "may", "may_not"), [(SCHEDULER, "bindings", "pods"), (MANAGER, "events", "pods")])
def test_the_control_plane_has_users_of_its_own(server: EmbeddedServer, user: str, may: str, may_not: str) -> None:
    kubeconfig = server.kubeconfig_of(user)
    assert f"system:{user}" in kubectl(kubeconfig, "auth", "whoami").stdout
    assert kubectl(kubeconfig, "auth", "can-i", "create", may).stdout == "yes\n"
    assert kubectl(kubeconfig, "auth", "can-i", "create", may_not).stdout == "no\n"


def test_everybody_may_do_everything_where_it_is_asked_for(tmp_path: Path) -> None:
    running = launch(ServerSettings(directory=tmp_path / "kcm", in_memory=True, authorization=ALWAYS_ALLOW))
    try:
        assert kubectl(running.kubeconfig, "get", "pods", "--as=jane").returncode == 0
        assert kubectl(running.kubeconfig_of(SCHEDULER), "auth", "can-i", "*", "*").stdout == "yes\n"
    finally:
        running.stop()
