"""`kubectl certificate approve` and `deny`, and their results: on our cluster, whose own authority signs,
and on a real kube-apiserver, where the controllers have no more rights than upstream's bootstrap role gives them.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from kcm.runtime.simulation.keys import AuthorityFiles, authority_pair, private_key, request_pem
from tests.e2e.conftest import Site
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import managing, until
from tests.e2e.real_server import assets_or_skip, real_server

pytestmark = pytest.mark.slow

KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
CLIENT, SERVING = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kubelet-serving"
NODE = ("system:node:n", "system:nodes")
DAY = 86400.0


def signing(certificate: Path | str, key: Path | str) -> tuple[str, str]:
    return f"--cluster-signing-cert-file={certificate}", f"--cluster-signing-key-file={key}"


@pytest.fixture(scope="module")
def on_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("certificates")
    authority = directory / "kcm" / "certificates" / "ca"
    flags = (f"--embedded-dir={directory / 'kcm'}", "--hollow-nodes=0")
    flags += signing(authority.with_suffix(".crt"), authority.with_suffix(".key"))
    with managing(directory / "kcm.log", *flags) as manager:
        yield Site(directory / "kcm" / "kubeconfig", manager)


@pytest.fixture(scope="module")
def on_kube_apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    assets = assets_or_skip()
    directory = tmp_path_factory.mktemp("certificates-real")
    now = time.time()
    files = AuthorityFiles("kubectl", authority_pair("ca", begin=now - DAY, end=now + 30 * DAY))
    with real_server(directory, assets, f"--client-ca-file={files.certificate}") as server:
        flags = (
            f"--kubeconfig={server.manager_kubeconfig}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            *signing(files.certificate, files.key),
        )
        with managing(directory / "kcm.log", *flags) as manager:
            yield Site(server.kubeconfig, manager)


@pytest.fixture(params=["on_own", pytest.param("on_kube_apiserver", marks=pytest.mark.cluster)])
def site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(request.param)
    return found


def asked(name: str, signer: str, pem: bytes, *usages: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {"request": base64.b64encode(pem).decode(), "signerName": signer, "usages": list(usages), **spec},
    }


def until_state(kubectl: Kubectl, name: str, state: str) -> None:
    """Wait for a state in the last column of `kubectl get csr`."""

    def shown() -> str:
        return kubectl("get", "csr", name, "--no-headers").split()[-1]

    until(lambda: shown() == state, f"{name} is {state}", why=lambda: kubectl("get", "csr", name, "--output=yaml"))


def certificate(kubectl: Kubectl, name: str) -> x509.Certificate:
    encoded = kubectl("get", "csr", name, "--output=jsonpath={.status.certificate}")
    return x509.load_pem_x509_certificate(base64.b64decode(encoded))


def purposes(made: x509.Certificate) -> list[x509.ObjectIdentifier]:
    return list(made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def as_user(kubectl: Kubectl, name: str, made: x509.Certificate, directory: Path) -> Kubectl:
    """Return kubectl that authenticates only with this certificate and key."""
    config = yaml.safe_load(kubectl.api.kubeconfig.read_text())
    key = private_key(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pair = {"client-certificate-data": made.public_bytes(Encoding.PEM), "client-key-data": key}
    config["users"][0]["user"] = {field: base64.b64encode(pem).decode() for field, pem in pair.items()}
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return Kubectl(Api(path), kubectl.namespace)


def test_a_person_is_let_in_with_what_was_approved(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.apply(asked("jane", CLIENT, request_pem("jane", "dev"), "client auth", expirationSeconds=3600))
    until_state(kubectl, "jane", "Pending")
    assert kubectl("certificate", "approve", "jane") == "certificatesigningrequest.certificates.k8s.io/jane approved\n"
    until_state(kubectl, "jane", "Approved,Issued")
    made = certificate(kubectl, "jane")
    assert (made.not_valid_after_utc - made.not_valid_before_utc).total_seconds() == 3600 + 300
    kubectl("create", "clusterrole", "askers", "--verb=create", "--resource=certificatesigningrequests")
    kubectl("create", "clusterrolebinding", "askers", "--clusterrole=askers", "--group=dev")
    jane = as_user(kubectl, "jane", made, tmp_path)
    until(lambda: jane.run("auth", "can-i", "create", "csr").stdout == "yes\n", "she may ask", why=kubectl.state)
    jane("create", "-f", "-", given=yaml.safe_dump(asked("of-jane", CLIENT, request_pem("jane"), "client auth")))
    spec = yaml.safe_load(kubectl("get", "csr", "of-jane", "--output=yaml"))["spec"]
    assert spec["username"] == "jane"
    assert {"dev", "system:authenticated"} <= set(spec["groups"])


def test_kubelets_get_theirs_and_servers_wait_for_people(kubectl: Kubectl) -> None:
    kubectl.apply(asked("kubelet", KUBELET, request_pem(*NODE), "digital signature", "client auth"))
    until_state(kubectl, "kubelet", "Approved,Issued")
    reason = kubectl("get", "csr", "kubelet", "--output=jsonpath={.status.conditions[0].reason}")
    assert reason == "AutoApproved"
    made = certificate(kubectl, "kubelet")
    assert purposes(made) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert made.subject.rfc4514_string() == "CN=system:node:n,O=system:nodes"

    pem = request_pem(*NODE, dns_names=["n"], ip_addresses=["10.0.0.1"])
    kubectl.apply(asked("server", SERVING, pem, "digital signature", "server auth"))
    until_state(kubectl, "server", "Pending")
    kubectl("certificate", "approve", "server")
    until_state(kubectl, "server", "Approved,Issued")
    made = certificate(kubectl, "server")
    assert purposes(made) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n"]


def test_denied_request_is_never_signed(kubectl: Kubectl) -> None:
    kubectl.apply(asked("denied", CLIENT, request_pem("eve"), "client auth"))
    kubectl("certificate", "deny", "denied")
    until_state(kubectl, "denied", "Denied")
    kubectl.run("certificate", "approve", "denied")
    until_state(kubectl, "denied", "Denied")
    kubectl.apply(asked("after", CLIENT, request_pem("adam"), "client auth"))
    kubectl("certificate", "approve", "after")
    until_state(kubectl, "after", "Approved,Issued")  # and what was denied before is still not
    until_state(kubectl, "denied", "Denied")
    assert kubectl("get", "csr", "denied", "--output=jsonpath={.status.certificate}") == ""


def test_request_that_the_signer_refuses_has_condition_failed(kubectl: Kubectl) -> None:
    kubectl.apply(asked("greedy", CLIENT, request_pem("eve"), "client auth", "server auth"))
    kubectl("certificate", "approve", "greedy")
    until_state(kubectl, "greedy", "Approved,Failed")
    message = kubectl("get", "csr", "greedy", "--output=jsonpath={.status.conditions[?(@.type=='Failed')].message}")
    assert message == "invalid usage for client certificate: server auth"


def test_requests_for_masters_are_refused_and_foreign_signers_ignored(kubectl: Kubectl) -> None:
    given = yaml.safe_dump(asked("master", CLIENT, request_pem("eve", "system:masters"), "client auth"))
    refused = kubectl.run("create", "-f", "-", given=given).stderr
    because = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    assert f'certificatesigningrequests.certificates.k8s.io "master" is forbidden: {because}' in refused
    kubectl.apply(asked("foreign", "example.com/signer", request_pem("x"), "client auth"))
    kubectl.apply(asked("ours", CLIENT, request_pem("y"), "client auth"))
    kubectl("certificate", "approve", "foreign", "ours")
    until_state(kubectl, "ours", "Approved,Issued")
    until_state(kubectl, "foreign", "Approved")
