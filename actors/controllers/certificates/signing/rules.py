"""What each signer of Kubernetes signs, and for how long.

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

SHORTEST = 600.0  # seconds
Rule = Callable[[RequestContent, Sequence[str]], str]


def api_client_problem(_asked: RequestContent, usages: Sequence[str]) -> str:
    """Whoever was approved may have any name, but no other use."""
    for usage in usages:
        if usage not in (DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, CLIENT_AUTH):
            return f"invalid usage for client certificate: {usage}"
    return "" if CLIENT_AUTH in usages else f"missing required usage for client certificate: {CLIENT_AUTH}"


# By signer: why it does not sign a request; "" if it does.
RULES: Mapping[str, Rule] = {
    KUBELET_SERVING: serving_problem,
    KUBELET_CLIENT: client_problem,
    KUBE_APISERVER_CLIENT: api_client_problem,
    LEGACY_UNKNOWN: lambda _asked, _usages: "",
}


def lifetime(requested: int | None, *, most: float) -> float:
    """For how many seconds a certificate is valid. requested: spec.expirationSeconds. most: without a wish."""
    if requested is None or requested > most:
        return most
    return max(float(requested), SHORTEST)
