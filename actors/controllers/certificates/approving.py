"""CertificateSigningRequest approver: approves client certificates of kubelets.

In: CertificateSigningRequests. Out: SubjectAccessReviews; the condition Approved, through the approval subresource.
Key: a request's name.

A request of a kubelet is approved if its user may create certificatesigningrequests/selfnodeclient, where it asks for
its own name, or certificatesigningrequests/nodeclient. Nothing is ever denied: a request that is recognized, but whose
user may not, is looked at again and again, as the permission may come later.

Source: kubernetes v1.36 pkg/controller/certificates/approver/sarapprove.go, certificate_controller.go. The request is
read apart from the actor, by a call, since cryptography is slow to load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.certificates.shared.queue import certificate_queue
from kcm.actors.controllers.certificates.shared.requests import (
    APPROVED,
    CERTIFICATE_SIGNING_REQUESTS,
    DENIED,
    KUBELET_CLIENT,
    RequestContent,
    asked,
    client_problem,
    has_condition,
    is_issued,
    spec_of,
    status_of,
)
from kcm.actors.reconciliation import Reconciliation, RetryQuietly, Step, create, must_object, step, update
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec
from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import Resource
from kcm.runtime.flags.values import quote
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

SUBJECT_ACCESS_REVIEWS = Resource(
    group="authorization.k8s.io",
    version="v1",
    plural="subjectaccessreviews",
    kind="SubjectAccessReview",
    namespaced=False,
)
REASON = "AutoApproved"


@dataclass(frozen=True, slots=True)
class Recognizer:
    """subresource: of certificatesigningrequests, which the user needs to be allowed to create."""

    recognizes: Callable[[Object, RequestContent], bool]
    subresource: str
    message: str


def is_node_client(request: Object, asked: RequestContent) -> bool:
    spec = spec_of(request)
    return spec.get("signerName") == KUBELET_CLIENT and not client_problem(asked, spec.get("usages") or ())


def is_own_node_client(request: Object, asked: RequestContent) -> bool:
    """A kubelet asks for the name that it has already."""
    return (spec_of(request).get("username") or "") == asked.common_name and is_node_client(request, asked)


RECOGNIZERS = (
    Recognizer(
        is_own_node_client,
        "selfnodeclient",
        "Auto approving self kubelet client certificate after SubjectAccessReview.",
    ),
    Recognizer(
        is_node_client,
        "nodeclient",
        "Auto approving kubelet client certificate after SubjectAccessReview.",
    ),
)


def review_of(request: Object, subresource: str) -> Object:
    """May who asks create this subresource of requests?"""
    spec = spec_of(request)
    subject: dict[str, Any] = {
        "user": spec.get("username"),
        "uid": spec.get("uid"),
        "groups": spec.get("groups"),
        "extra": spec.get("extra"),
    }
    attributes = {
        "group": CERTIFICATE_SIGNING_REQUESTS.group,
        "version": "*",
        "resource": CERTIFICATE_SIGNING_REQUESTS.plural,
        "subresource": subresource,
        "verb": "create",
    }
    return {"spec": {"resourceAttributes": attributes, **{name: value for name, value in subject.items() if value}}}


def approved(request: Object, message: str) -> Object:
    """The request with one more condition; its times are set by the server."""
    condition = {"type": APPROVED, "status": "True", "reason": REASON, "message": message}
    status = status_of(request)
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}


class Approver:
    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._requests = tables[CERTIFICATE_SIGNING_REQUESTS]
        self._log = log

    def reconcile(self, key: Key) -> Reconciliation:
        request = self._requests.get(key)
        if request is None or is_issued(request):
            return None
        if has_condition(request, APPROVED) or has_condition(request, DENIED):
            return None
        wanted = yield from asked(request)
        tried: list[str] = []
        for recognizer in RECOGNIZERS:
            if not recognizer.recognizes(request, wanted):
                continue
            tried.append(recognizer.subresource)
            if (yield from self._may(request, recognizer.subresource)):
                change = update(
                    CERTIFICATE_SIGNING_REQUESTS, approved(request, recognizer.message), subresource="approval"
                )
                yield from must_object(change)
                return None
        if tried:
            because = f"as [{' '.join(tried)}] but subject access review was not approved"
            raise RetryQuietly(f"recognized csr {quote(key)} {because}")
        return None

    @step
    def _may(self, request: Object, subresource: str) -> Step[bool]:
        review = yield from must_object(create(SUBJECT_ACCESS_REVIEWS, review_of(request, subresource)))
        status: Mapping[str, Any] = review.get("status") or {}
        return status.get("allowed") is True


def _build(context: ControllerContext) -> Approver:
    return Approver(tables=context.tables, log=context.log)


SPEC = ControllerSpec(
    name="certificatesigningrequest-approving-controller",
    aliases=("csrapproving",),
    never_blocks=True,
    client="certificate-controller",
    queues=(certificate_queue(),),
    build=_build,
)
