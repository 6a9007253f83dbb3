"""The programs of `run-kcm envtest`, started as by controller-runtime's envtest, and kube-apiserver beside them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.envtest import ControlPlane, control_plane
from tests.e2e.programs import ROOT, stays, until
from tests.e2e.real_server import assets_or_skip

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on PATH")
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer", "maximum": 3}}}
                        },
                    }
                },
            }
        ],
    },
}


def write_assets(directory: Path, *flags: str) -> Path:
    """Write the programs, as a user does, and return their directory."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "kcm", "envtest", *flags, str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"export KUBEBUILDER_ASSETS={directory}\n"
    return directory


@pytest.fixture(scope="module", params=["embedded", pytest.param("kube-apiserver", marks=pytest.mark.slow)])
def assets(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "kube-apiserver":
        return assets_or_skip()
    return write_assets(tmp_path_factory.mktemp("envtest"))


@pytest.fixture(scope="module")
def plane(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(assets, tmp_path_factory.mktemp("logs")) as started:
        yield started


def kubectl(config: Path, *arguments: str, given: object = None) -> subprocess.CompletedProcess[str]:
    command = ["kubectl", f"--kubeconfig={config}", f"--cache-dir={config.parent / 'cache'}", *arguments]
    return subprocess.run(
        command, input="" if given is None else json.dumps(given), capture_output=True, text=True, check=False
    )


def succeed(config: Path, *arguments: str, given: object = None) -> str:
    done = kubectl(config, *arguments, given=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Path:
    return plane.add_user("admin", "system:masters")


def test_users_are_authenticated_by_certificates_of_the_suite(plane: ControlPlane, admin: Path) -> None:
    identity = json.loads(succeed(admin, "auth", "whoami", "--output=json"))["status"]["userInfo"]
    assert (identity["username"], identity["groups"]) == ("admin", ["system:masters", "system:authenticated"])
    jane = plane.add_user("jane", "dev")
    assert kubectl(jane, "get", "configmaps").stderr.startswith(
        'Error from server (Forbidden): configmaps is forbidden: User "jane" cannot list resource "configmaps"'
    )
    succeed(admin, "create", "role", "reader", "--verb=list", "--resource=configmaps")
    succeed(admin, "create", "rolebinding", "readers", "--role=reader", "--group=dev")
    until(lambda: kubectl(jane, "get", "configmaps").returncode == 0, "the role applies")


def test_tokens_of_service_accounts_have_the_issuer_of_the_suite(plane: ControlPlane, admin: Path) -> None:
    succeed(admin, "create", "serviceaccount", "robot")
    token = succeed(admin, "create", "token", "robot").strip()
    config = plane.directory / "robot.kubecfg"
    succeed(admin, "config", "view", "--raw")
    config.write_text(admin.read_text())
    for command in (("config", "delete-user", "envtest"), ("config", "set-credentials", "envtest", f"--token={token}")):
        succeed(config, *command)
    identity = json.loads(succeed(config, "auth", "whoami", "--output=json"))["status"]["userInfo"]
    assert identity["username"] == "system:serviceaccount:default:robot"
    found = json.loads(succeed(admin, "get", "--raw", "/.well-known/openid-configuration"))
    assert found["issuer"] == plane.url
    keys = json.loads(succeed(admin, "get", "--raw", "/openid/v1/jwks"))["keys"]
    assert [key["crv"] for key in keys] == ["P-256"]


def test_custom_resources_are_served_once_their_definition_is_established(admin: Path) -> None:
    succeed(admin, "create", "-f", "-", given=CRD)
    succeed(admin, "wait", "crd/gadgets.example.com", "--for=condition=Established", "--timeout=30s")
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"size": 3}}
    until(lambda: kubectl(admin, "create", "-f", "-", given=gadget).returncode == 0, "the resource is served")
    large = {**gadget, "metadata": {"name": "b"}, "spec": {"size": 4}}
    assert "should be less than or equal to 3" in kubectl(admin, "create", "-f", "-", given=large).stderr


def test_pods_are_created_without_service_accounts(admin: Path) -> None:
    succeed(admin, "run", "web", "--image=nginx", "--privileged")
    assert "volumes" not in json.loads(succeed(admin, "get", "pod/web", "--output=json"))["spec"]
    service = succeed(admin, "create", "service", "clusterip", "web", "--tcp=80", "--output=jsonpath={.spec.clusterIP}")
    assert service.startswith("10.0.0.")


def test_no_controllers_run(admin: Path) -> None:
    succeed(admin, "create", "namespace", "kept")
    succeed(admin, "delete", "namespace", "kept", "--wait=false")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "missing", "uid": "00000000-0000-4000-8000-000000000000"}
    owned = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "owned", "ownerReferences": [owner]}}
    succeed(admin, "create", "-f", "-", given=owned)

    def both_exist() -> bool:
        phase = succeed(admin, "get", "namespace", "kept", "--output=jsonpath={.status.phase}")
        return phase == "Terminating" and kubectl(admin, "get", "secret", "owned").returncode == 0

    stays(both_exist, "both exist", seconds=1.0)


def test_objects_outlive_a_restart_of_the_api_server(plane: ControlPlane, admin: Path) -> None:
    succeed(admin, "create", "configmap", "kept")
    assert plane.apiserver.terminate(20.0) == 0
    plane.apiserver = plane.start_apiserver()
    assert succeed(admin, "get", "configmap", "kept", "--output=name") == "configmap/kept\n"


def test_programs_stop_quickly_despite_an_open_watch(tmp_path: Path) -> None:
    # kube-apiserver itself does not end within envtest's 20 s while a watch is open.
    with control_plane(write_assets(tmp_path / "assets"), tmp_path) as plane:
        admin = plane.add_user("admin", "system:masters")
        command = ["kubectl", f"--kubeconfig={admin}", "get", "namespaces", "--watch", "--output=name"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watching:
            try:
                assert watching.stdout is not None
                assert watching.stdout.readline().startswith(b"namespace/")
                taken = plane.stop()
            finally:
                watching.kill()
    assert max(taken.values()) < 20.0


def test_unknown_flag_is_refused_with_the_error_of_kube_apiserver(assets: Path) -> None:
    done = subprocess.run(
        [str(assets / "kube-apiserver"), "--no-such-flag"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "Error: unknown flag: --no-such-flag\n")


def test_controllers_can_be_switched_on(tmp_path: Path) -> None:
    assets = write_assets(tmp_path / "assets", "--garbage-collection", "--namespace-deletion")
    with control_plane(assets, tmp_path) as plane:
        admin = plane.add_user("admin", "system:masters")
        succeed(admin, "create", "namespace", "ends")
        succeed(admin, "create", "configmap", "owner")
        uid = succeed(admin, "get", "configmap", "owner", "--output=jsonpath={.metadata.uid}")
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        owned = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "owned", "ownerReferences": [owner]}}
        succeed(admin, "create", "-f", "-", given=owned)
        succeed(admin, "create", "configmap", "inside", "--namespace=ends")
        succeed(admin, "delete", "configmap", "owner")
        succeed(admin, "delete", "namespace", "ends", "--timeout=30s")
        gone = lambda: "NotFound" in kubectl(admin, "get", "secret", "owned").stderr  # noqa: E731
        until(gone, "the dependent is deleted")
