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

SHORTEST = 600.0  # seconds; shorter requested lifetimes are raised to it
Rule = Callable[[RequestContent, Sequence[str]], str]


def api_client_problem(_content: RequestContent, usages: Sequence[str]) -> str:
    """Return why this is not a valid request for a client certificate; "" if it is.

    Any subject is permitted, because the approval was for this subject; only usages for client authentication are.
    """
    for usage in usages:
        if usage not in (DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH):
            return f"invalid usage for client certificate: {usage}"
    return "" if CLIENT_AUTH in usages else f"missing required usage for client certificate: {CLIENT_AUTH}"


# Each function returns why the signer rejects a request; "" if it signs it.
# Source: upstream's getCSRVerificationFuncForSignerName.
RULES: Mapping[str, Rule] = {
    KUBELET_SERVING: serving_problem,
    KUBELET_CLIENT: client_problem,
    KUBE_APISERVER_CLIENT: api_client_problem,
    LEGACY_UNKNOWN: lambda _content, _usages: "",  # no restrictions on subject or usages
}


def lifetime(requested: int | None, *, most: float) -> float:
    """Return the validity of a certificate in seconds, as upstream's signer.duration.

    requested: spec.expirationSeconds.
    most: maximum, and the default without a request.
    """
    if requested is None or requested > most:
        return most
    return max(float(requested), SHORTEST)
