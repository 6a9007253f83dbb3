"""CertificateSigningRequests: recorded requester, validation, and the fields that each subresource can change.

Cases of kubernetes v1.36 pkg/apis/certificates/validation/validation_test.go,
pkg/registry/certificates/certificates/strategy_test.go and plugin/pkg/admission/certificates/*/admission_test.go.
"""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from kcm.runtime.apiserver.registry.users import Access, Decision, User
from kcm.runtime.client.api import Request
from kcm.runtime.simulation.keys import authority_pair, request_pem

COLLECTION = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client"
CERTIFICATE = authority_pair("issued", begin=0.0, end=2e9).certificate
FORBIDDEN = 'certificatesigningrequests.certificates.k8s.io "r" is forbidden: '
NOW = "2001-09-09T01:46:40Z"


def text(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def request(name: str = "r", pem: bytes = request_pem("jane"), **spec: Any) -> dict[str, Any]:
    whole = {"request": text(pem), "signerName": CLIENT, "usages": ["client auth"]}
    return {"metadata": {"name": name}, "spec": {**whole, **spec}}


def condition(kind: str = "Approved", status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, **more}


def written(api, part: str, obj: dict[str, Any]):
    return api.send("PUT", f"{COLLECTION}/{obj['metadata']['name']}/{part}", obj)


def with_status(obj: dict[str, Any], *conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**obj, "status": {**status, **({"conditions": list(conditions)} if conditions else {})}}


def test_requester_is_recorded_whatever_the_request_contains(api) -> None:
    jane = User("jane", uid="7", groups=("dev", "system:authenticated"), extra={"example.com/a": ("1", "2")})
    lie = request(username="root", groups=["system:masters"], uid="0", extra={"x": ["y"]})
    asked = Request(method="POST", path=COLLECTION, body=orjson.dumps(lie), content_type="application/json", query={})
    spec = orjson.loads(api.server.handle(asked, user=jane).body)["spec"]
    assert {name: spec[name] for name in ("username", "uid", "groups", "extra")} == {
        "username": "jane",
        "uid": "7",
        "groups": ["dev", "system:authenticated"],
        "extra": {"example.com/a": ["1", "2"]},
    }
    anonymous = orjson.loads(api.server.handle(second_request(lie), user=User("nobody")).body)["spec"]
    assert "groups" not in anonymous
    assert "extra" not in anonymous


def second_request(obj: dict[str, Any]) -> Request:
    body = orjson.dumps({**obj, "metadata": {"name": "again"}})
    return Request(method="POST", path=COLLECTION, body=body, content_type="application/json", query={})


def test_approved_condition_of_a_new_request_is_dropped(api) -> None:
    made = api.send("POST", COLLECTION, with_status(request(), condition(), certificate=text(CERTIFICATE)))
    assert (made.status, made.obj["status"]) == (201, {})


USAGES = (
    '"any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", '
    '"decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", '
    '"ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", '
    '"server auth", "signing", "timestamping"'
)


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"usages": []}, {"spec.usages": "Required value"}),
        (
            {"usages": ["client auth", "bad", "client auth"]},
            {
                "spec.usages[1]": f'Unsupported value: "bad": supported values: {USAGES}',
                "spec.usages[2]": 'Duplicate value: "client auth"',
            },
        ),
        ({"signerName": ""}, {"spec.signerName": "Required value"}),
        (
            {"signerName": "kubernetes.io/legacy-unknown"},
            {
                "spec.signerName": 'Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not '
                "allowed via this API version"
            },
        ),
        (
            {"signerName": "abcd"},
            {
                "spec.signerName": 'Invalid value: "abcd": must be a fully qualified domain and path of the form '
                "'example.com/signer-name'"
            },
        ),
        (
            {"signerName": "example/some"},
            {
                "spec.signerName": 'Invalid value: "example": should be a domain with at least two segments separated '
                "by dots"
            },
        ),
        (
            {"expirationSeconds": 599},
            {
                "spec.expirationSeconds": "Invalid value: 599: may not specify a duration less than 600 seconds "
                "(10 minutes)"
            },
        ),
        ({"request": ""}, {"spec.request": 'Invalid value: "": PEM block type must be CERTIFICATE REQUEST'}),
    ],
)
def test_invalid_request_is_rejected(api, spec: dict[str, Any], causes: dict[str, str]) -> None:
    refused = api.send("POST", COLLECTION, request(**spec))
    assert (refused.status, refused.causes) == (422, causes)


@pytest.mark.parametrize("signer", ["a.b/c", "some.thing.example.com/some.path", "example.com/x" + "y" * 62])
def test_valid_signer_name_is_accepted(api, signer: str) -> None:
    assert api.send("POST", COLLECTION, request(signerName=signer)).status == 201


@pytest.mark.parametrize(
    ("signer", "why"),
    [
        ("a.b/", 'validating label ""'),
        ("a_b.c/d", 'validating label "a_b"'),
        ("a.b/c/d", "must be a fully qualified domain and path"),
        ("a.b/D", 'validating label "D"'),
        ("a" * 64 + ".b/c", "must be no more than 63 characters"),
    ],
)
def test_invalid_signer_name_is_rejected(api, signer: str, why: str) -> None:
    assert why in api.send("POST", COLLECTION, request(signerName=signer)).causes["spec.signerName"]


def test_spec_is_immutable_and_labels_are_not(api) -> None:
    made = api.send("POST", COLLECTION, request()).obj
    other = {**made, "spec": request(pem=request_pem("root"))["spec"], "status": {"conditions": [condition()]}}
    other["metadata"] = {**made["metadata"], "labels": {"a": "b"}}
    shown = api.send("PUT", f"{COLLECTION}/r", other).obj
    assert (shown["spec"], shown["status"], shown["metadata"]["labels"]) == (made["spec"], {}, {"a": "b"})


def test_approval_sets_conditions_and_times(api) -> None:
    made = api.send("POST", COLLECTION, request()).obj
    wanted = with_status(made, condition(reason="R", message="M"), certificate=text(CERTIFICATE))
    shown = written(api, "approval", {**wanted, "spec": {}})
    times = {"lastUpdateTime": NOW, "lastTransitionTime": NOW}
    assert shown.status == 200
    assert shown.obj["status"] == {"conditions": [condition(reason="R", message="M", **times)]}
    assert shown.obj["spec"] == made["spec"]
    api.advance(60)
    again = written(api, "approval", with_status(shown.obj, condition(reason="S"))).obj["status"]["conditions"]
    assert again == [condition(reason="S", lastUpdateTime="2001-09-09T01:47:40Z", lastTransitionTime=NOW)]
    patch = {"status": {"conditions": [*again, condition("Other", "False")]}}
    patched = api.send("PATCH", f"{COLLECTION}/r/approval", patch, type_="application/merge-patch+json")
    assert [condition["type"] for condition in patched.obj["status"]["conditions"]] == ["Approved", "Other"]
    assert api.send("GET", f"{COLLECTION}/r/approval").obj == patched.obj


def test_approved_and_denied_are_exclusive_and_permanent(api) -> None:
    approved = written(api, "approval", with_status(api.send("POST", COLLECTION, request()).obj, condition())).obj
    both = with_status(approved, *approved["status"]["conditions"], condition("Denied"))
    exclusive = 'Invalid value: "Denied": Approved and Denied conditions are mutually exclusive'
    assert written(api, "approval", both).causes == {"status.conditions": exclusive}
    without = {**approved, "status": {}}
    for part in ("approval", "status"):
        refused = written(api, part, without)
        assert refused.causes == {
            "status.conditions": 'Forbidden: updates may not remove a condition of type "Approved"'
        }


@pytest.mark.parametrize(
    ("given", "causes"),
    [
        (condition(""), {"status.conditions[0].type": "Required value"}),
        (condition("Other", ""), {"status.conditions[0].status": "Required value"}),
        (
            condition("Other", "Maybe"),
            {"status.conditions[0].status": 'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"'},
        ),
        (
            condition("Denied", "False"),
            {"status.conditions[0].status": 'Unsupported value: "False": supported values: "True"'},
        ),
    ],
)
def test_invalid_conditions_are_rejected(api, given: dict[str, Any], causes: dict[str, str]) -> None:
    made = api.send("POST", COLLECTION, request()).obj
    assert written(api, "approval", with_status(made, given)).causes == causes


def test_duplicate_condition_type_is_rejected(api) -> None:
    made = api.send("POST", COLLECTION, request()).obj
    refused = written(api, "approval", with_status(made, condition("Other"), condition("Other")))
    assert refused.causes == {"status.conditions[1].type": 'Duplicate value: "Other"'}


def test_status_update_sets_the_certificate_once_and_keeps_the_approval(api) -> None:
    approved = written(api, "approval", with_status(api.send("POST", COLLECTION, request()).obj, condition())).obj
    changed = [{**approved["status"]["conditions"][0], "reason": "changed"}]
    signed = written(api, "status", with_status(approved, *changed, certificate=text(CERTIFICATE))).obj
    assert signed["status"] == {**approved["status"], "certificate": text(CERTIFICATE)}
    other = authority_pair("other", begin=0.0, end=2e9).certificate
    refused = written(api, "status", {**signed, "status": {**signed["status"], "certificate": text(other)}})
    assert refused.causes == {"status.certificate": "Forbidden: updates may not modify existing certificate content"}
    failed = with_status(signed, *signed["status"]["conditions"], condition("Failed"), certificate=text(CERTIFICATE))
    assert written(api, "status", failed).obj["status"]["conditions"][1]["lastTransitionTime"] == NOW


def test_status_update_cannot_approve(api) -> None:
    made = api.send("POST", COLLECTION, request()).obj
    for kind in ("Approved", "Denied"):
        refused = written(api, "status", with_status(made, condition(kind)))
        assert refused.causes == {"status.conditions": f'Forbidden: updates may not add a condition of type "{kind}"'}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"garbage", "must contain at least one CERTIFICATE PEM block"),
        (request_pem("jane"), 'only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"'),
        (
            CERTIFICATE.replace(b"CERTIFICATE-----\n", b"CERTIFICATE-----\na: b\n\n", 1),
            "no PEM block headers are permitted",
        ),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "x509: malformed certificate"),
    ],
)
def test_invalid_certificate_is_rejected(api, content: bytes, why: str) -> None:
    made = api.send("POST", COLLECTION, request()).obj
    refused = written(api, "status", with_status(made, certificate=text(content)))
    assert refused.causes["status.certificate"].startswith(f'Invalid value: "<certificate data>": {why}')


def test_client_certificate_for_system_masters_is_rejected(api) -> None:
    masters = request_pem("jane", "system:masters")
    refused = api.send("POST", COLLECTION, request(pem=masters))
    because = f"use of {CLIENT} signer with system:masters group is not allowed"
    assert (refused.status, refused.message) == (403, FORBIDDEN + because)
    assert api.send("POST", COLLECTION, request(pem=masters, signerName="example.com/other")).status == 201


def test_approval_and_signing_need_permission_for_the_signer(make_api) -> None:
    asked: list[Access] = []

    def authorize(access: Access) -> Decision:
        asked.append(access)
        return Decision(allowed=access.attributes["name"] == "good.com/*")

    api = make_api(authorize=authorize)
    made = api.send("POST", COLLECTION, request()).obj
    refused = written(api, "approval", with_status(made, condition()))
    because = f'user not permitted to approve requests with signerName "{CLIENT}"'
    assert (refused.status, refused.message) == (403, FORBIDDEN + because)
    assert [access.attributes["name"] for access in asked] == [CLIENT, "kubernetes.io/*"]
    refused = written(api, "status", with_status(made, certificate=text(CERTIFICATE)))
    assert refused.message.endswith(f'user not permitted to sign requests with signerName "{CLIENT}"')
    assert written(api, "status", made).status == 200  # without a change
    good = api.send("POST", COLLECTION, request("good", signerName="good.com/signer")).obj
    approved = written(api, "approval", with_status(good, condition()))
    assert approved.status == 200
    signed = with_status(approved.obj, *approved.obj["status"]["conditions"], certificate=text(CERTIFICATE))
    assert written(api, "status", signed).status == 200


def test_requests_can_be_selected_by_signer(api) -> None:
    api.send("POST", COLLECTION, request("a"))
    api.send("POST", COLLECTION, request("b", signerName="example.com/b"))
    assert api.send("GET", COLLECTION, fieldSelector="spec.signerName=example.com/b").names == ["b"]
    refused = api.send("GET", COLLECTION, fieldSelector="spec.username=x")
    assert "field label not supported: spec.username" in refused.message
