"""CertificateSigningRequests: creation, approval, status, and rejections by admission.

Users are removed from the responses, because the client has another name in each server.
"""

from __future__ import annotations

import base64
from typing import Any

from kcm.runtime.simulation.keys import authority_pair, request_pem
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, embedded, on_one_server
from tests.runtime.apiserver.contracts.requests import MERGE, Given, Send, Step

REQUESTS = "certificatesigningrequests"
PATH = f"{REQUESTS}/r"
CLIENT, SERVING = "kubernetes.io/kube-apiserver-client", "kubernetes.io/kubelet-serving"
JANE, MASTER = request_pem("jane", "dev"), request_pem("jane", "system:masters")
CERTIFICATE = authority_pair("contract", begin=0.0, end=4e9).certificate
WITH_HEADERS = CERTIFICATE.replace(b"-----\n", b"-----\na: b\n\n", 1)


def encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def new(name: str = "r", **spec: Any) -> Step:
    given = {"request": encoded(JANE), "signerName": CLIENT, "usages": ["client auth"], **spec}
    return Step("POST", REQUESTS, {"metadata": {"name": name}, "spec": given})


def condition(type_: str, status: str | None = "True", **more: str) -> dict[str, str]:
    return {"type": type_, **({} if status is None else {"status": status}), **more}


def conditions(path: str, *given: dict[str, str]) -> Step:
    return Step("PATCH", f"{PATH}/{path}", {"status": {"conditions": given}}, MERGE)


def certificate(pem: bytes, path: str = "status") -> Step:
    return Step("PATCH", f"{PATH}/{path}", {"status": {"certificate": encoded(pem)}}, MERGE)


APPROVED = condition("Approved", reason="R", message="m")
GONE = Step("DELETE", PATH)
SCENARIOS: dict[str, list[Step]] = {
    "a request is made": [
        new(expirationSeconds=600),
        new(),
        Step("PATCH", PATH, {"metadata": {"labels": {"a": "b"}}, "spec": {"signerName": SERVING}}, MERGE),
        Step("PATCH", PATH, {"status": {"certificate": encoded(CERTIFICATE), "conditions": [APPROVED]}}, MERGE),
        Step("GET", f"{PATH}/approval"),
        Step("GET", REQUESTS, query={"fieldSelector": f"spec.signerName={SERVING}"}),
        Step("GET", REQUESTS, query={"fieldSelector": "spec.foo=1"}),
        GONE,
        Step("GET", PATH),
    ],
    "a request is refused": [
        new(usages=[]),
        new(usages=["client auth", "client auth", "bad"]),
        new(signerName="kubernetes.io/legacy-unknown"),
        new(signerName="no-slash"),
        new(signerName="a_b.c/d"),
        new(signerName=""),
        new(expirationSeconds=599),
        new(expirationSeconds=-1),
        new(request=encoded(b"no pem")),
        new(request=encoded(CERTIFICATE)),
        new(request="%%%"),
        new(request=encoded(MASTER)),
        new("not-a-master", request=encoded(MASTER), signerName=SERVING),
        Step("DELETE", f"{REQUESTS}/not-a-master"),
        new("A strange name/"),
    ],
    "it is approved": [
        new(),
        conditions("approval", condition("Approved", "False")),
        conditions("approval", condition("Approved", None)),
        conditions("approval", condition("")),
        conditions("approval", APPROVED, APPROVED),
        conditions("approval", APPROVED, condition("Denied")),
        conditions("approval", APPROVED),
        conditions("approval", {**APPROVED, "message": "another"}),
        conditions("approval", condition("Denied")),
        conditions("approval"),
        conditions("status"),
        certificate(CERTIFICATE, "approval"),
        conditions("approval", APPROVED, condition("Failed"), condition("example.com/other", "Unknown")),
        conditions("approval", APPROVED, condition("example.com/other", "Maybe")),
        Step("PATCH", f"{PATH}/approval", {"metadata": {"labels": {"a": "b"}}, "spec": {"usages": ["any"]}}, MERGE),
        GONE,
    ],
    "what was decided is not taken back": [
        new(),
        conditions("approval", APPROVED),
        conditions("status", APPROVED, condition("Failed")),
        conditions("status"),
        conditions("approval"),
        GONE,
    ],
    "it is denied": [
        new(),
        conditions("status", condition("Denied")),
        conditions("approval", condition("Denied", reason="R")),
        conditions("approval", APPROVED),
        conditions("approval", condition("Denied"), APPROVED),
        certificate(CERTIFICATE),
        GONE,
    ],
    "it is signed": [
        new(),
        conditions("status", APPROVED),
        conditions("status", condition("Failed", "False")),
        certificate(b"no pem"),
        certificate(JANE),
        certificate(WITH_HEADERS),
        certificate(CERTIFICATE.replace(b"M", b"N")),
        certificate(b"before\n" + CERTIFICATE),
        certificate(CERTIFICATE),
        certificate(b""),
        conditions("status", condition("Failed", reason="Late", message="m")),
        conditions("status"),
        conditions("status", condition("Failed"), condition("example.com/other", "False")),
        Step("PATCH", f"{PATH}/status", {"metadata": {"labels": {"a": "b"}}, "spec": {"usages": ["any"]}}, MERGE),
        GONE,
    ],
}
_WHO = ("username", "uid", "groups", "extra")


def play(scenario: str, send: Send) -> list[dict[str, Any]]:
    inside = f"/api/v1/namespaces/{requests.NAMESPACE}/{REQUESTS}"

    def of_the_cluster(given: Given) -> tuple[int, Any]:
        path = given.path.replace(inside, f"/apis/certificates.k8s.io/v1/{REQUESTS}")
        status, answer = send(given._replace(path=path))
        for obj in (answer, *(answer.get("items") or ())):
            for field in _WHO:
                (obj.get("spec") or {}).pop(field, None)
        return status, answer

    return requests.play_steps(SCENARIOS[scenario], of_the_cluster)


CONTRACT = Contract("certificates", SCENARIOS, play, embedded=embedded(), real=on_one_server())
