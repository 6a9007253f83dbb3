"""Requests for certificates: what the real kube-controller-manager makes of them, and ours, on one kube-apiserver.

Conditions, and all of a certificate but its serial number, its signature and when it was made, must be the same.
"""

from __future__ import annotations

import base64
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kcm.runtime.simulation.keys import AuthorityFiles, authority_pair, request_pem
from tests.e2e.kubectl import Api
from tests.e2e.programs import ending, free_port, spawn, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CONTROLLERS = ",".join(f"certificatesigningrequest-{what}-controller" for what in ("signing", "approving", "cleaner"))
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
CLIENT, SERVING = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kubelet-serving"
CLIENT_USAGES = ("digital signature", "client auth")
NODE = ("system:node:n", "system:nodes")


class Case(NamedTuple):
    """Certificate request. approved: by a user. settled: final state."""

    signer: str
    usages: tuple[str, ...]
    pem: bytes
    settled: str
    approved: bool = True
    seconds: int | None = None


ALL_NAMES = request_pem(
    "jane", "dev", "ops", dns_names=["a.b"], ip_addresses=["10.0.0.1"], email_addresses=["a@b.c"], uris=["spiffe://x/y"]
)
CASES = {
    "kubelet": Case(KUBELET, CLIENT_USAGES, request_pem(*NODE), "certificate", approved=False),
    "greedy": Case(KUBELET, (*CLIENT_USAGES, "server auth"), request_pem(*NODE), "Failed"),
    "person": Case(CLIENT, CLIENT_USAGES, ALL_NAMES, "certificate", seconds=3600),
    "long": Case(CLIENT, ("client auth",), request_pem("bob"), "certificate"),
    "bad-usage": Case(CLIENT, ("server auth",), request_pem("bob"), "Failed"),
    "serving": Case(
        SERVING,
        ("digital signature", "key encipherment", "server auth"),
        request_pem(*NODE, dns_names=["n"]),
        "certificate",
        seconds=36000,
    ),
    "nameless": Case(SERVING, ("digital signature", "server auth"), request_pem(*NODE), "Failed"),
    "foreign": Case("example.com/x", CLIENT_USAGES, request_pem("x"), "Approved"),
    "pending": Case(CLIENT, CLIENT_USAGES, request_pem("p"), "", approved=False),
}


def ask(api: Api, name: str, case: Case) -> None:
    spec: dict[str, Any] = {
        "request": base64.b64encode(case.pem).decode(),
        "signerName": case.signer,
        "usages": list(case.usages),
    }
    if case.seconds is not None:
        spec["expirationSeconds"] = case.seconds
    made = api.request("POST", REQUESTS, {"metadata": {"name": name}, "spec": spec})
    if case.approved:
        made["status"] = {"conditions": [{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]}
        api.request("PUT", f"{REQUESTS}/{name}/approval", made)


def is_settled(api: Api, name: str, case: Case) -> bool:
    status = api.get(f"{REQUESTS}/{name}")["status"]
    types = {condition["type"] for condition in status.get("conditions", ())}
    return case.settled == "" or case.settled in types or case.settled in status


def seen(api: Api, name: str) -> Any:
    found = api.get(f"{REQUESTS}/{name}")
    conditions = [
        {field: value for field, value in condition.items() if not field.startswith("last")}
        for condition in found["status"].get("conditions", ())
    ]
    return found["spec"], conditions, content(found["status"].get("certificate", ""))


def content(certificate: str) -> Any:
    if not certificate:
        return None
    made = x509.load_pem_x509_certificate(base64.b64decode(certificate))
    return (
        made.subject.rfc4514_string(),
        made.issuer.rfc4514_string(),
        made.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        [(extension.oid.dotted_string, extension.critical, repr(extension.value)) for extension in made.extensions],
        (made.not_valid_after_utc - made.not_valid_before_utc).total_seconds(),
        made.signature_algorithm_oid.dotted_string,
    )


def work(api: Api) -> dict[str, Any]:
    for name, case in CASES.items():
        ask(api, name, case)
    for name, case in CASES.items():
        until(lambda name=name, case=case: is_settled(api, name, case), f"{name} is settled")  # type: ignore[misc]
    found = {name: seen(api, name) for name in CASES}
    for name in CASES:
        api.request("DELETE", f"{REQUESTS}/{name}")
    return found


def programs(server: RealServer) -> dict[str, list[str]]:
    now = time.time()
    files = AuthorityFiles("side-by-side", authority_pair("ca", begin=now - 86400, end=now + 30 * 86400))
    flags = [
        f"--kubeconfig={server.kubeconfig}",
        "--leader-elect=false",
        f"--secure-port={free_port()}",
        "--bind-address=127.0.0.1",
        f"--controllers={CONTROLLERS}",
        f"--cluster-signing-cert-file={files.certificate}",
        f"--cluster-signing-key-file={files.key}",
        "--cluster-signing-duration=48h",
    ]
    return {
        "real": [str(server.binaries / "kube-controller-manager"), *flags],
        "ours": [sys.executable, "-m", "kcm.actors.command", *flags],
    }


def test_both_approve_and_sign_alike(tmp_path: Path) -> None:
    assets = assets_or_skip()
    found: dict[str, dict[str, Any]] = {}
    with real_server(tmp_path, assets) as server:
        for name, command in programs(server).items():
            with ending(spawn(command, tmp_path / f"{name}.log")):
                found[name] = work(Api(server.kubeconfig))
    assert found["ours"] == found["real"]
