"""Service accounts with kubectl, and a manager whose controllers act as accounts of their own: on our cluster, and on a
real kube-apiserver, where the manager has no more rights than its bootstrap role gives it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.e2e.conftest import Site
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import managing, run_kcm, until
from tests.e2e.real_server import RealServer

pytestmark = pytest.mark.slow

LABELS = {"app": "web"}
CREDENTIALS = "--use-service-account-credentials"
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder"}}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "type": "kubernetes.io/service-account-token",
    "metadata": {"name": "builder-token", "annotations": {"kubernetes.io/service-account.name": "builder"}},
}


@pytest.fixture(scope="module")
def own_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("accounts")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (directory / "sa.key").write_bytes(pem)
    flags = (f"--embedded-dir={directory / 'kcm'}", f"--service-account-private-key-file={directory / 'sa.key'}")
    with managing(directory / "kcm.log", CREDENTIALS, *flags) as manager:
        yield Site(directory / "kcm" / "kubeconfig", manager)


@pytest.fixture(scope="module")
def real_accounts(real: RealServer) -> Iterator[Site]:
    flags = (
        f"--kubeconfig={real.manager_kubeconfig}",
        "--leader-elect=false",
        f"--service-account-private-key-file={real.directory / 'sa.key'}",
        f"--root-ca-file={real.directory / 'apiserver.crt'}",
    )
    with managing(real.directory / "accounts.log", CREDENTIALS, *flags) as manager:
        yield Site(real.kubeconfig, manager)


@pytest.fixture(params=["own_accounts", pytest.param("real_accounts", marks=pytest.mark.cluster)])
def site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(request.param)
    return found


def data_of(kubectl: Kubectl, resource: str, name: str) -> dict[str, str]:
    data: dict[str, str] = kubectl.get(resource, name).get("data") or {}
    return data


def names(kubectl: Kubectl, resource: str) -> set[str]:
    return {item["metadata"]["name"] for item in kubectl.items(resource)}


def test_a_namespace_has_its_account_and_its_certificates(kubectl: Kubectl) -> None:
    until(lambda: "default" in names(kubectl, "serviceaccounts"), "the default account")
    until(lambda: "kube-root-ca.crt" in names(kubectl, "configmaps"), "the certificates")
    before = data_of(kubectl, "configmaps", "kube-root-ca.crt")
    assert before["ca.crt"].startswith("-----BEGIN CERTIFICATE-----")
    kubectl("patch", "configmap", "kube-root-ca.crt", "--patch", json.dumps({"data": {"ca.crt": "other"}}))
    until(lambda: data_of(kubectl, "configmaps", "kube-root-ca.crt") == before, "they are restored")
    kubectl("delete", "serviceaccount", "default")
    kubectl("delete", "configmap", "kube-root-ca.crt")
    until(lambda: "default" in names(kubectl, "serviceaccounts"), "the account is back")
    until(lambda: "kube-root-ca.crt" in names(kubectl, "configmaps"), "the certificates are back")


def test_a_token_secret_is_filled_and_goes_with_its_account(kubectl: Kubectl, site: Site) -> None:
    kubectl.apply(ACCOUNT, SECRET)
    until(lambda: "token" in data_of(kubectl, "secrets", "builder-token"), "it has a token")
    data = data_of(kubectl, "secrets", "builder-token")
    assert base64.b64decode(data["namespace"]).decode() == kubectl.namespace
    assert base64.b64decode(data["ca.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")
    token = base64.b64decode(data["token"]).decode()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{kubectl.namespace}:builder"
    assert claims["kubernetes.io/serviceaccount/secret.name"] == "builder-token"
    refused = kubectl.run("get", "serviceaccounts", f"--token={token}").stderr
    assert "Unauthorized" not in refused
    today = datetime.now(UTC)
    days = [f"{today + timedelta(days=ahead):%Y-%m-%d}" for ahead in (-1, 0)]
    used = kubectl.get("secrets", "builder-token")["metadata"]["labels"]["kubernetes.io/legacy-token-last-used"]
    assert used in days
    kubectl("label", "secret", "builder-token", f"kubernetes.io/legacy-token-invalid-since={used}")
    until(
        lambda: "Unauthorized" in kubectl.run("get", "serviceaccounts", f"--token={token}").stderr,
        "it is invalid",
    )
    kubectl("patch", "secret", "builder-token", "--type=json", '--patch=[{"op": "remove", "path": "/data/token"}]')
    until(lambda: data_of(kubectl, "secrets", "builder-token") == data, "the same token again")
    kubectl("delete", "serviceaccount", "builder")
    until(lambda: "builder-token" not in names(kubectl, "secrets"), "it is gone with its account")


def test_an_account_is_issued_tokens(kubectl: Kubectl) -> None:
    kubectl.apply(ACCOUNT)
    token = kubectl("create", "token", "builder", "--duration=10m").strip()
    refused = kubectl.run("get", "serviceaccounts", f"--token={token}").stderr
    assert "Unauthorized" not in refused
    kubectl("delete", "serviceaccount", "builder")
    until(
        lambda: "Unauthorized" in kubectl.run("get", "serviceaccounts", f"--token={token}").stderr,
        "it is nobody's token any more",
    )


def test_controllers_act_as_accounts_of_their_own(kubectl: Kubectl, site: Site) -> None:
    pod: dict[str, Any] = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": pod}
    kubectl.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    until(lambda: len(kubectl.items("pods")) == 2, "two pods", why=site.manager.program.text)
    kubectl("delete", "deployment", "web")
    until(lambda: kubectl.items("pods") == [], "no pods", why=site.manager.program.text)
    there = {
        account["metadata"]["name"] for account in Kubectl(Api(site.kubeconfig), "kube-system").items("serviceaccounts")
    }
    assert {"deployment-controller", "replicaset-controller", "generic-garbage-collector"} <= there
    assert "tokens-controller" not in there


def test_a_key_that_cannot_be_read_ends_the_command(tmp_path: Path) -> None:
    flag = f"--service-account-private-key-file={tmp_path / 'none'}"
    manager = run_kcm(tmp_path / "log", f"--embedded-dir={tmp_path / 'kcm'}", "--hollow-nodes=0", flag)
    assert manager.program.process.wait(60.0) == 1
    assert "error reading key for service account token controller: open " in manager.program.text()


def test_a_pod_of_a_new_namespace_finds_a_token(own_accounts: Site) -> None:
    """It is created right after its namespace, and waits until this has its account."""
    api = Api(own_accounts.kubeconfig)
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "at-once"}})
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = api.request("POST", "/api/v1/namespaces/at-once/pods", pod)["spec"]
    (mount,) = spec["containers"][0]["volumeMounts"]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert [volume["name"] for volume in spec["volumes"]] == [mount["name"]]
