"""Rules of the kubernetes.io signers: which requests they sign, and how long certificates are valid.

Source: kubernetes v1.36 pkg/controller/certificates/signer/signer.go, pkg/apis/certificates/helpers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kcm.actors.controllers.certificates.shared.requests import (
    CLIENT_AUTH,
    DIGITAL_SIGNATURE,
    KEY_ENCIPHERMENT,
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY_UNKNOWN,
    RequestContent,
    client_problem,
    serving_problem,
)

SHORTEST = 600.0  # seconds; the minimum lifetime, also if a shorter one is requested
Rule = Callable[[RequestContent, Sequence[str]], str]


def api_client_problem(_content: RequestContent, usages: Sequence[str]) -> str:
    """Return the reason why a request is invalid for a client certificate of the API server; "" if it is valid.

    The usages must be those of client authentication. Any subject is permitted, because the request was approved with
    its subject.

    usages: spec.usages of the CertificateSigningRequest.
    """
    for usage in usages:
        if usage not in (DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH):
            return f"invalid usage for client certificate: {usage}"
    return "" if CLIENT_AUTH in usages else f"missing required usage for client certificate: {CLIENT_AUTH}"


# By signer, the function that returns the reason why the signer rejects a request; "" if it signs the request.
# Source: upstream's getCSRVerificationFuncForSignerName.
RULES: Mapping[str, Rule] = {
    KUBELET_SERVING: serving_problem,
    KUBELET_CLIENT: client_problem,
    KUBE_APISERVER_CLIENT: api_client_problem,
    LEGACY_UNKNOWN: lambda _content, _usages: "",  # no restrictions on subject or usages
}


def lifetime(requested: int | None, *, most: float) -> float:
    """Return for how many seconds a certificate is valid: at least 600, at most `most` (upstream: signer.duration).

    requested: spec.expirationSeconds; None if unset, which results in `most`.
    """
    if requested is None or requested > most:
        return most
    return max(float(requested), SHORTEST)
