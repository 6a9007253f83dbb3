"""Token requests (serviceaccounts/token): issued and rejected tokens, and their expiration."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from kcm.runtime.apiserver.access.account_tokens import ISSUER, AccountTokens
from kcm.runtime.apiserver.registry.users import AUTHENTICATED, User
from kcm.runtime.signing.tokens import SigningKey
from tests.runtime.apiserver.conftest import START, Answer, Api

KEY = SigningKey(generate_private_key(SECP256R1()))


@pytest.fixture
def api() -> Api:
    made = Api(accounts=AccountTokens(KEY))
    made.create("serviceaccounts", {"metadata": {"name": "robot"}})
    return made


def ask(api: Api, name: str = "robot", **spec: Any) -> Answer:
    meta = spec.pop("metadata", {})
    body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": meta, "spec": spec}
    return api.send("POST", api.path("serviceaccounts", name, "token"), body)


def token_of(answer: Answer) -> str:
    assert answer.status == 201, answer.obj
    return str(answer.obj["status"]["token"])


def claims(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    found: dict[str, Any] = orjson.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def test_token_contains_its_account_and_expiry(api: Api) -> None:
    uid = api.get("serviceaccounts", "robot").meta["uid"]
    answer = ask(api, expirationSeconds=1200)
    assert answer.obj["spec"] == {"audiences": [ISSUER], "expirationSeconds": 1200}
    assert answer.meta | {"creationTimestamp": ""} == {
        "name": "robot",
        "namespace": "default",
        "uid": uid,
        "creationTimestamp": "",
    }
    assert answer.obj["status"]["expirationTimestamp"] == "2001-09-09T02:06:40Z"
    token_claims = claims(token_of(answer))
    assert token_claims.pop("jti")
    assert token_claims == {
        "aud": [ISSUER],
        "exp": int(START) + 1200,
        "iat": int(START),
        "iss": ISSUER,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}},
        "nbf": int(START),
        "sub": "system:serviceaccount:default:robot",
    }


def test_token_expires_with_a_leeway_of_a_minute(api: Api) -> None:
    token = token_of(ask(api))
    user = api.server.user_of(token)
    assert user is not None
    assert user.name == "system:serviceaccount:default:robot"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default", AUTHENTICATED)
    api.advance(3660.0)
    assert isinstance(api.server.user_of(token), User)
    api.advance(1.0)
    assert api.server.user_of(token) is None


def test_token_is_rejected_after_its_account_is_deleted(api: Api) -> None:
    token = token_of(ask(api))
    api.delete("serviceaccounts", "robot")
    assert api.server.user_of(token) is None
    api.create("serviceaccounts", {"metadata": {"name": "robot"}})
    assert api.server.user_of(token) is None, "it was the other one's"


@pytest.mark.parametrize("kind", ["Pod", "Secret"])
def test_token_is_rejected_after_its_bound_object_is_deleted(api: Api, kind: str) -> None:
    resource = f"{kind.lower()}s"
    obj = Api.pod("x", serviceAccountName="robot") if kind == "Pod" else {"metadata": {"name": "x"}}
    uid = api.create(resource, obj).meta["uid"]
    token = token_of(ask(api, boundObjectRef={"kind": kind, "apiVersion": "v1", "name": "x", "uid": uid}))
    assert claims(token)["kubernetes.io"][kind.lower()] == {"name": "x", "uid": uid}
    assert api.server.user_of(token) is not None
    api.delete(resource, "x", {"gracePeriodSeconds": 0})
    assert api.server.user_of(token) is None


@pytest.mark.parametrize("kind", ["ServiceAccount", "Secret", "Pod", "Node"])
def test_token_is_rejected_a_minute_after_its_object_is_marked_for_deletion(api: Api, kind: str) -> None:
    """A finalizer keeps the object."""
    resource, name = f"{kind.lower()}s", "robot" if kind == "ServiceAccount" else "x"
    bound: dict[str, Any] = {}
    if kind == "ServiceAccount":
        api.delete(resource, name)
        api.create(resource, {"metadata": {"name": name, "finalizers": ["kcm.dev/test"]}})
    else:
        obj = Api.pod("x", serviceAccountName="robot") if kind == "Pod" else {"metadata": {"name": "x"}}
        obj["metadata"]["finalizers"] = ["kcm.dev/test"]
        api.create(resource, obj)
        bound = {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": "x"}}
    token = token_of(ask(api, **bound))
    deleted = api.delete(resource, name, {"gracePeriodSeconds": 0})
    assert deleted.obj["metadata"]["deletionTimestamp"]
    api.advance(60.0)
    assert api.server.user_of(token) is not None
    api.advance(1.0)
    assert api.server.user_of(token) is None


def test_token_of_a_pod_contains_its_node(api: Api) -> None:
    node = api.create("nodes", {"metadata": {"name": "n1"}}).meta["uid"]
    api.create("pods", Api.pod("x", serviceAccountName="robot", nodeName="n1"))
    token = token_of(ask(api, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "x"}))
    assert claims(token)["kubernetes.io"]["node"] == {"name": "n1", "uid": node}
    user = api.server.user_of(token)
    assert user is not None
    assert user.extra["authentication.kubernetes.io/node-name"] == ("n1",)


def test_token_for_another_audience_is_rejected(api: Api) -> None:
    assert api.server.user_of(token_of(ask(api, audiences=["vault"]))) is None


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "é"])
def test_invalid_tokens_authenticate_no_user(api: Api, token: str) -> None:
    assert api.server.user_of(token) is None


@pytest.mark.parametrize(
    ("request_spec", "status", "text"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": (1 << 32) + 1}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"metadata": {"name": "other"}}, 422, "must match the service account name if specified"),
        ({"metadata": {"namespace": "other"}}, 422, "must match the service account namespace if specified"),
        ({"metadata": {"uid": "other"}}, 409, "does not match the UID of the service account"),
        (
            {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}},
            400,
            "cannot bind token to object",
        ),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "gone"}}, 404, 'pods "gone" not found'),
        (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "other"}},
            400,
            "different serviceaccount name",
        ),
        ({"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": "y"}}, 409, "then recreated"),
    ],
)
def test_invalid_token_request_is_refused(api: Api, request_spec: dict[str, Any], status: int, text: str) -> None:
    api.create("pods", Api.pod("other", serviceAccountName="another"))
    api.create("secrets", {"metadata": {"name": "s"}})
    answer = ask(api, **request_spec)
    assert answer.status == status
    assert text in answer.message


def test_token_request_for_a_missing_account_is_not_found(api: Api) -> None:
    assert ask(api, "nobody").status == 404


def test_server_without_a_signing_key_issues_no_token() -> None:
    api = Api()
    api.create("serviceaccounts", {"metadata": {"name": "robot"}})
    assert ask(api).status == 405
    assert api.server.user_of("x") is None


def test_issuer_audiences_and_further_keys_can_be_set() -> None:
    old, issuers = SigningKey(generate_private_key(SECP256R1())), ("https://new", "https://old")
    made = Api(accounts=AccountTokens(KEY, issuers=issuers, others=[old]))
    made.create("serviceaccounts", {"metadata": {"name": "robot"}})
    issued = AccountTokens(old, issuers=("https://old",))
    account = made.get("serviceaccounts", "robot").obj
    common: Any = {"audiences": ["https://old"], "bound": [], "now": made.clock.now(), "seconds": 600}
    accepted = issued.issue(account, number=lambda: "1", **common)
    foreign = AccountTokens(old, issuers=("https://other",)).issue(account, number=lambda: "2", **common)
    assert [made.server.user_of(token) is not None for token in (accepted, foreign)] == [True, False]
    assert made.server.issuer == "https://new"
    assert [key["kid"] for key in made.server.public_keys()] == [KEY.key_id, old.key_id]
