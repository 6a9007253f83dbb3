"""CertificateSigningRequest approver: approves client certificates of kubelets.

In: CertificateSigningRequests.
Out: SubjectAccessReviews, and the condition Approved through the approval subresource.
Key: the name of a CertificateSigningRequest.

A request for a kubelet's client certificate is approved if a SubjectAccessReview permits its user to create
certificatesigningrequests/selfnodeclient or certificatesigningrequests/nodeclient. The first permission suffices only
if the user is the node that the certificate is for, as in a renewal. The second one suffices for certificates of all
nodes, as in TLS bootstrapping. The controller never denies a request. If the user of a request lacks the permission,
the request is retried with backoff, because the permission may be granted later.

Source: kubernetes v1.36 pkg/controller/certificates/approver/sarapprove.go, certificate_controller.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kcm.actors.controllers.certificates.shared.queue import certificate_queue
from kcm.actors.controllers.certificates.shared.requests import (
    APPROVED,
    CERTIFICATE_SIGNING_REQUESTS,
    DENIED,
    KUBELET_CLIENT,
    RequestContent,
    client_problem,
    has_condition,
    is_issued,
    request_content_of,
    spec_of,
    status_of,
)
from kcm.actors.reconciliation import Because, Reconciliation, RetryQuietly, Step, create, must_object, step, update
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec
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


class Recognizer(Struct, frozen=True):
    """Kind of CertificateSigningRequest that can be approved, and the permission that it requires.

    Upstream: csrRecognizer.

    recognizes: function that reports whether a request is of this kind.
    subresource: subresource of certificatesigningrequests that the user must be permitted to create.
    message: message of the condition Approved.
    """

    recognizes: Callable[[Object, RequestContent], bool]
    subresource: str
    message: str


def is_node_client(request: Object, content: RequestContent) -> bool:
    """Report whether a CertificateSigningRequest is for a kubelet's client certificate (upstream: isNodeClientCert)."""
    spec = spec_of(request)
    return spec.get("signerName") == KUBELET_CLIENT and not client_problem(content, spec.get("usages") or ())


def is_own_node_client(request: Object, content: RequestContent) -> bool:
    """Report whether a kubelet requests a client certificate for its own user name (upstream: isSelfNodeClientCert)."""
    return (spec_of(request).get("username") or "") == content.common_name and is_node_client(request, content)


# In upstream's order: the review of the narrower permission is created first.
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
    """Return a SubjectAccessReview for the user of a CertificateSigningRequest.

    subresource: subresource of certificatesigningrequests. The review checks whether the user may create it.
    """
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


def with_approval(request: Object, message: str) -> Object:
    """Return a copy of the CertificateSigningRequest with the condition Approved, without timestamps.

    The API server adds the timestamps. message: message of the condition.
    """
    condition = {"type": APPROVED, "status": "True", "reason": REASON, "message": message}
    status = status_of(request)
    return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}


class Approver:
    """Reconciler that approves requests for client certificates of kubelets. Key: name of the request."""

    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._requests = tables[CERTIFICATE_SIGNING_REQUESTS]
        self._log = log

    def reconcile(self, key: Key) -> Reconciliation:
        """Approve a CertificateSigningRequest for a kubelet's client certificate if its user has the permission.

        Raises RetryQuietly if the user does not have it yet. Source: sarApprover.handle.
        """
        request = self._requests.get(key)
        if request is None or is_issued(request):
            return None
        if has_condition(request, APPROVED) or has_condition(request, DENIED):
            return None
        content = yield from request_content_of(request)
        tried: list[str] = []
        for recognizer in RECOGNIZERS:
            if not recognizer.recognizes(request, content):
                continue
            tried.append(recognizer.subresource)
            if (yield from self._is_allowed(request, recognizer.subresource)):
                user = spec_of(request).get("username")
                yield Because(
                    f"approves it: user {user} may create certificatesigningrequests/{recognizer.subresource}"
                )
                change = update(
                    CERTIFICATE_SIGNING_REQUESTS, with_approval(request, recognizer.message), subresource="approval"
                )
                yield from must_object(change)
                return None
        if not tried:
            yield Because("is not approved automatically: it is not for the client certificate of a kubelet")
        if tried:
            because = f"as [{' '.join(tried)}] but subject access review was not approved"
            raise RetryQuietly(f"recognized csr {quote(key)} {because}")
        return None

    @step
    def _is_allowed(self, request: Object, subresource: str) -> Step[bool]:
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
