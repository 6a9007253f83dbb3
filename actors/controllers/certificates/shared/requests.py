"""CertificateSigningRequests: their state, what they ask for, and what kubelets may ask for.

Source: kubernetes v1.36 pkg/controller/certificates/certificate_controller_utils.go, pkg/apis/certificates/helpers.go,
staging/src/k8s.io/api/certificates/v1/types.go.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from kcm.actors.reconciliation import Step, call, step
from kcm.protocols.late_methods import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContent:
    """Fields of a CertificateSigningRequest's PKCS #10 request that decisions depend on. common_name: "" if absent."""

    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    email_addresses: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


def read_request(pem: bytes) -> dict[str, Any]:
    """Return the fields of RequestContent. Runs outside the actor. Raises ValueError if `pem` is not a request."""
    from kcm.runtime.x509.requests import facts_of, parse_request  # heavy: cryptography

    return asdict(facts_of(parse_request(pem)))


class UnreadableRequestError(ValueError):
    """The bytes inside are no request."""


@step
def asked(request: Object) -> Step[RequestContent]:
    """Reads the request, outside of the actor. Raises UnreadableRequestError."""
    found: Any = yield from call(read_request, pem_of(request), but=(ValueError,))
    if isinstance(found, Raised):
        problem = found.message.partition(": ")[2]
        raise UnreadableRequestError(f'unable to parse csr "{name_of(request)}": {problem}')
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    return RequestContent(**fields)


def pem_of(request: Object) -> bytes:
    """Of the PKCS #10 request, as it was sent."""
    return base64.b64decode(spec_of(request).get("request") or "")


def spec_of(request: Object) -> Mapping[str, Any]:
    return request.get("spec") or {}


def status_of(request: Object) -> Mapping[str, Any]:
    return request.get("status") or {}


def conditions_of(request: Object) -> Iterator[Mapping[str, Any]]:
    yield from status_of(request).get("conditions") or ()


def has_condition(request: Object, kind: str) -> bool:
    """Whatever it says."""
    return any(one.get("type") == kind for one in conditions_of(request))


def is_approved(request: Object) -> bool:
    """And not denied as well."""
    return has_condition(request, APPROVED) and not has_condition(request, DENIED)


def has_failed(request: Object) -> bool:
    return any(one.get("type") == FAILED and one.get("status") in (None, "", "True") for one in conditions_of(request))


def is_issued(request: Object) -> bool:
    return bool(status_of(request).get("certificate"))


def serving_problem(asked: RequestContent, usages: Collection[str]) -> str:
    """Why this is not what the server of a kubelet may have; "" if it is."""
    if asked.organizations != (NODES_GROUP,):
        return "subject organization is not system:nodes"
    if not asked.dns_names and not asked.ip_addresses:
        return "DNS or IP subjectAltName is required"
    if asked.email_addresses:
        return "Email subjectAltNames are not allowed"
    if asked.uris:
        return "URI subjectAltNames are not allowed"
    if problem := _usage_problem(usages, SERVER_AUTH):
        return problem
    return _name_problem(asked)


def client_problem(asked: RequestContent, usages: Collection[str]) -> str:
    """Why this is not what a kubelet may have to speak to the API server; "" if it is."""
    if asked.organizations != (NODES_GROUP,):
        return "subject organization is not system:nodes"
    named = {"DNS": asked.dns_names, "Email": asked.email_addresses, "IP": asked.ip_addresses, "URI": asked.uris}
    for kind, names in named.items():
        if names:
            return f"{kind} subjectAltNames are not allowed"
    return _name_problem(asked) or _usage_problem(usages, CLIENT_AUTH)


def _name_problem(asked: RequestContent) -> str:
    return "" if asked.common_name.startswith(NODE_PREFIX) else "subject common name does not begin with system:node:"


def _usage_problem(usages: Collection[str], purpose: str) -> str:
    """Keys other than RSA encipher nothing."""
    wanted = {DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, purpose}
    if set(usages) in (wanted, wanted - {KEY_ENCIPHERMENT}):
        return ""
    return f"usages did not match [{' '.join(sorted(wanted))}]"
