"""Tests of the approver: recognized requests, access reviews, and approvals.

Cases of kubernetes v1.36 pkg/controller/certificates/approver/sarapprove_test.go.
"""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from kcm.actors.controllers.certificates.approver import (
    SPEC,
    SUBJECT_ACCESS_REVIEWS,
    Approver,
    is_node_client,
    is_own_node_client,
)
from kcm.actors.controllers.certificates.shared.requests import (
    CERTIFICATE_SIGNING_REQUESTS,
    RequestContent,
    UnreadableRequestError,
    read_request,
)
from kcm.actors.reconciliation import RetryQuietly
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Update
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, Outcome
from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.runtime.apiserver.registry.users import Access, Decision
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.simulation.keys import request_pem
from tests.actors.controllers.certificates.builders import CLIENT_USAGES, NODE, NODES, condition, csr

SELF = "Auto approving self kubelet client certificate after SubjectAccessReview."
OTHER = "Auto approving kubelet client certificate after SubjectAccessReview."


def parse(pem: bytes) -> RequestContent:
    return RequestContent(**read_request(pem))


@pytest.mark.parametrize(
    ("request_", "own", "node"),
    [
        (csr(), True, True),
        (csr(usages=("digital signature", "client auth")), True, True),
        (csr(user="system:bootstrap:abc"), False, True),
        (csr(user=""), False, True),
        (csr(pem=request_pem("mike", NODES), user="mike"), False, False),
        (csr(pem=request_pem(NODE)), False, False),
        (csr(pem=request_pem(NODE, "system:master")), False, False),
        (csr(pem=request_pem(NODE, NODES, "more")), False, False),
        (csr(usages=(*CLIENT_USAGES, "server auth")), False, False),
        (csr(usages=("digital signature", "key encipherment")), False, False),
        (csr(usages=()), False, False),
        (csr(signer="kubernetes.io/kubelet-serving"), False, False),
        (csr(signer="kubernetes.io/kube-apiserver-client"), False, False),
        (csr(signer="example.com/other"), False, False),
        (csr(pem=request_pem(NODE, NODES, dns_names=["n1"])), False, False),
        (csr(pem=request_pem(NODE, NODES, ip_addresses=["10.0.0.1"])), False, False),
        (csr(pem=request_pem(NODE, NODES, email_addresses=["a@b.c"])), False, False),
        (csr(pem=request_pem(NODE, NODES, uris=["spiffe://a"])), False, False),
    ],
)
def test_requests_of_kubelets_are_recognized(request_: Object, own: bool, node: bool) -> None:
    content = parse(base64.b64decode(request_["spec"]["request"]))
    assert (is_own_node_client(request_, content), is_node_client(request_, content)) == (own, node)


def run(request: Object, *allowed: str, outcome: Outcome | None = None) -> Driven:
    """Run the approver for one request.

    allowed: subresources that the user may create.
    outcome: outcome of the approval; by default it succeeds.
    """
    bench = Bench({CERTIFICATE_SIGNING_REQUESTS: [request]})

    def answer(command: Command) -> Outcome:
        match command:
            case Create(resource, _, body) if resource == SUBJECT_ACCESS_REVIEWS.id:
                review = decode_object(body)
                may = review["spec"]["resourceAttributes"]["subresource"] in allowed
                return Done(encode_object({**review, "status": {"allowed": may}}))
            case Update() if outcome is not None:
                return outcome
        return bench.accept(command)

    approver = Approver(tables=bench.tables, log=quiet_log())
    return drive(approver, "r", answer, tables=bench.tables)


def reviews(driven: Driven) -> list[dict[str, Any]]:
    return [orjson.loads(creation.body)["spec"] for creation in driven.of(Create)]


@pytest.mark.parametrize(
    ("user", "allowed", "asked_for", "message"),
    [
        (NODE, ("selfnodeclient",), ["selfnodeclient"], SELF),
        (NODE, ("selfnodeclient", "nodeclient"), ["selfnodeclient"], SELF),
        (NODE, ("nodeclient",), ["selfnodeclient", "nodeclient"], OTHER),
        ("system:bootstrap:abc", ("nodeclient",), ["nodeclient"], OTHER),
    ],
)
def test_request_is_approved_if_its_user_is_allowed(
    user: str, allowed: tuple[str, ...], asked_for: list[str], message: str
) -> None:
    driven = run(csr(user=user), *allowed)
    assert [review["resourceAttributes"]["subresource"] for review in reviews(driven)] == asked_for
    [update] = driven.of(Update)
    assert (update.key, update.subresource) == ("r", "approval")
    approval = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}
    assert decode_object(update.body)["status"] == {"conditions": [approval]}


def test_access_review_contains_the_user_of_the_request() -> None:
    request = csr(user="kubelet", uid="7", groups=["a", "b"], extra={"k": ["v"]})
    [review] = reviews(run(request, "nodeclient"))
    assert review == {
        "user": "kubelet",
        "uid": "7",
        "groups": ["a", "b"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "group": "certificates.k8s.io",
            "version": "*",
            "resource": "certificatesigningrequests",
            "subresource": "nodeclient",
            "verb": "create",
        },
    }


def test_request_of_forbidden_user_is_retried_without_log() -> None:
    with pytest.raises(RetryQuietly) as refused:
        run(csr())
    assert str(refused.value) == (
        'recognized csr "r" as [selfnodeclient nodeclient] but subject access review was not approved'
    )


@pytest.mark.parametrize(
    "request_",
    [
        csr(conditions=[condition("Approved")]),
        csr(conditions=[condition("Denied")]),
        csr(certificate=b"x"),
        csr(signer="example.com/other"),
        csr(usages=("server auth",)),
    ],
)
def test_decided_or_unrecognized_request_is_ignored(request_: Object) -> None:
    driven = run(request_, "selfnodeclient", "nodeclient")
    assert (driven.of(Create), driven.of(Update)) == ([], [])


def test_other_conditions_are_kept() -> None:
    driven = run(csr(conditions=[condition("Other")]), "selfnodeclient")
    [update] = driven.of(Update)
    types = [condition["type"] for condition in decode_object(update.body)["status"]["conditions"]]
    assert types == ["Other", "Approved"]


@pytest.mark.parametrize("outcome", [Conflict("newer"), Forbidden("no")])
def test_rejected_approval_is_retried(outcome: Outcome) -> None:
    with pytest.raises(CommandError):
        run(csr(), "selfnodeclient", outcome=outcome)


def test_malformed_request_is_retried() -> None:
    with pytest.raises(UnreadableRequestError, match='unable to parse csr "r": PEM block type must be CERTIFICATE'):
        run(csr(pem=b"garbage"))


def test_request_is_approved_when_the_permission_is_granted_later(cluster: SimulatedCluster) -> None:
    granted: set[str] = set()
    seen: list[Access] = []

    def authorize(access: Access) -> Decision:
        seen.append(access)
        may = access.attributes.get("resource") == "signers" or access.attributes.get("subresource") in granted
        return Decision(allowed=may)

    cluster.authorize = authorize
    cluster.manager(controllers=(SPEC,))
    cluster.create(CERTIFICATE_SIGNING_REQUESTS, {**csr(), "status": {}})
    cluster.run_for(30)
    assert approvals(cluster) == []
    granted.add("nodeclient")
    assert cluster.run_until(lambda: approvals(cluster) == [OTHER], within=60)
    assert {access.user.name for access in seen if "subresource" in access.attributes} == {"system:admin"}


def test_malformed_request_does_not_block_others(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=(SPEC,))
    cluster.run_for(5)
    for number, wrong in enumerate(({"spec": {}}, {"spec": {"request": "AAAA"}}, {"status": {"conditions": "x"}})):
        bad = {**csr(f"bad-{number}"), "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        plant(cluster, {**bad, **wrong})
    cluster.create(CERTIFICATE_SIGNING_REQUESTS, {**csr(), "status": {}})
    assert cluster.run_until(lambda: approvals(cluster) == [], within=5)
    assert cluster.run_until(lambda: approvals(cluster) == [OTHER], within=60)


def plant(cluster: SimulatedCluster, obj: Object) -> None:
    """Store an object without validation, as another release may have done."""
    obj = {**obj, "metadata": {**obj["metadata"], "uid": obj["metadata"]["name"]}}
    state = cluster.server._cluster.state
    cluster.server._transact(
        lambda: state.put("certificatesigningrequests.certificates.k8s.io", obj["metadata"]["name"], obj)
    )


def approvals(cluster: SimulatedCluster) -> list[str]:
    request = cluster.get(CERTIFICATE_SIGNING_REQUESTS, "r")
    assert request is not None
    return [condition["message"] for condition in request["status"].get("conditions") or ()]
