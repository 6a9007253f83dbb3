"""Vocabulary for CertificateSigningRequests: conditions, content of spec.request, and rules for kubelet certificates.

Source: kubernetes v1.36 pkg/controller/certificates/certificate_controller_utils.go, pkg/apis/certificates/helpers.go,
staging/src/k8s.io/api/certificates/v1/types.go.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from kcm.actors.reconciliation import Step, call, step
from kcm.protocols.messages.outcomes import Raised
from kcm.protocols.objects import Object, name_of
from kcm.protocols.resources import Resource

CERTIFICATE_SIGNING_REQUESTS = Resource(
    group="certificates.k8s.io",
    version="v1",
    plural="certificatesigningrequests",
    kind="CertificateSigningRequest",
    namespaced=False,
)

KUBELET_SERVING = "kubernetes.io/kubelet-serving"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBE_APISERVER_CLIENT = "kubernetes.io/kube-apiserver-client"
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
NODE_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"
DIGITAL_SIGNATURE, KEY_ENCIPHERMENT = "digital signature", "key encipherment"
CLIENT_AUTH, SERVER_AUTH = "client auth", "server auth"


class RequestContent(Struct, frozen=True, kw_only=True):
    """Parsed PKCS #10 request from spec.request of a CertificateSigningRequest.

    It has the fields of Go's x509.CertificateRequest that decisions depend on. All names are in the order of the
    request.
    """

    common_name: str  # of the subject; "" if missing
    organizations: tuple[str, ...]  # of the subject
    dns_names: tuple[str, ...] = ()  # subject alternative names, as the fields below
    email_addresses: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


def read_request(pem: bytes) -> dict[str, Any]:
    """Parse a PKCS #10 request in PEM, and return the fields of a RequestContent by name.

    Runs on a thread outside of the actor, because it imports the library cryptography, which is slow. Raises ValueError
    for a malformed request.
    """
    from kcm.runtime.x509.requests import facts_of, parse_request

    return asdict(facts_of(parse_request(pem)))


class UnreadableRequestError(ValueError):
    """Raised if the PKCS #10 request in spec.request is malformed."""


@step
def request_content_of(request: Object) -> Step[RequestContent]:
    """Parse spec.request of a CertificateSigningRequest, on a thread outside of the actor.

    Raises UnreadableRequestError if spec.request is malformed.
    """
    found: Any = yield from call(read_request, pem_of(request), but=(ValueError,))
    if isinstance(found, Raised):
        problem = found.message.partition(": ")[2]
        raise UnreadableRequestError(f'unable to parse csr "{name_of(request)}": {problem}')
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    return RequestContent(**fields)


def pem_of(request: Object) -> bytes:
    """Return the PKCS #10 request in PEM from spec.request of a CertificateSigningRequest."""
    return base64.b64decode(spec_of(request).get("request") or "")


def spec_of(request: Object) -> Mapping[str, Any]:
    return request.get("spec") or {}


def status_of(request: Object) -> Mapping[str, Any]:
    return request.get("status") or {}


def conditions_of(request: Object) -> Iterator[Mapping[str, Any]]:
    yield from status_of(request).get("conditions") or ()


def has_condition(request: Object, kind: str) -> bool:
    """Report whether a CertificateSigningRequest has a condition of this type, with any status."""
    return any(condition.get("type") == kind for condition in conditions_of(request))


def is_approved(request: Object) -> bool:
    """Report whether a CertificateSigningRequest is approved and not denied.

    Upstream: IsCertificateRequestApproved.
    """
    return has_condition(request, APPROVED) and not has_condition(request, DENIED)


def has_failed(request: Object) -> bool:
    """Report whether a CertificateSigningRequest has a condition Failed that is True or has no status.

    Upstream: HasTrueCondition.
    """
    return any(
        condition.get("type") == FAILED and condition.get("status") in (None, "", "True")
        for condition in conditions_of(request)
    )


def is_issued(request: Object) -> bool:
    return bool(status_of(request).get("certificate"))


def serving_problem(content: RequestContent, usages: Collection[str]) -> str:
    """Return the reason why a request is invalid for a kubelet's serving certificate; "" if it is valid.

    usages: spec.usages of the CertificateSigningRequest.

    Source: upstream's ValidateKubeletServingCSR.
    """
    if content.organizations != (NODES_GROUP,):
        return "subject organization is not system:nodes"
    if not content.dns_names and not content.ip_addresses:
        return "DNS or IP subjectAltName is required"
    if content.email_addresses:
        return "Email subjectAltNames are not allowed"
    if content.uris:
        return "URI subjectAltNames are not allowed"
    if problem := _usage_problem(usages, SERVER_AUTH):
        return problem
    return _name_problem(content)


def client_problem(content: RequestContent, usages: Collection[str]) -> str:
    """Return the reason why a request is invalid for a kubelet's client certificate; "" if it is valid.

    usages: spec.usages of the CertificateSigningRequest.

    Source: upstream's ValidateKubeletClientCSR.
    """
    if content.organizations != (NODES_GROUP,):
        return "subject organization is not system:nodes"
    alternative_names = {
        "DNS": content.dns_names,
        "Email": content.email_addresses,
        "IP": content.ip_addresses,
        "URI": content.uris,
    }
    for kind, names in alternative_names.items():
        if names:
            return f"{kind} subjectAltNames are not allowed"
    return _name_problem(content) or _usage_problem(usages, CLIENT_AUTH)


def _name_problem(content: RequestContent) -> str:
    if content.common_name.startswith(NODE_PREFIX):
        return ""
    return "subject common name does not begin with system:node:"


def _usage_problem(usages: Collection[str], purpose: str) -> str:
    # Key encipherment is optional: only RSA keys can be used for it.
    wanted = {DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, purpose}
    if set(usages) in (wanted, wanted - {KEY_ENCIPHERMENT}):
        return ""
    return f"usages did not match [{' '.join(sorted(wanted))}]"
