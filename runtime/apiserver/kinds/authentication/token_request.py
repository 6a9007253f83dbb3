"""TokenRequest (authentication.k8s.io/v1), the request body of the subresource serviceaccounts/token.

Source: kubernetes pkg/apis/authentication/{v1/defaults.go,validation/validation.go} (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy

HOUR, SHORTEST, LONGEST = 3600, 600, 1 << 32  # seconds


def set_defaults(request: Object) -> None:
    request.setdefault("spec", {}).setdefault("expirationSeconds", HOUR)


def validate(request: Object) -> list[FieldError]:
    field, seconds = "spec.expirationSeconds", request["spec"]["expirationSeconds"]
    if seconds < SHORTEST:
        return [invalid(field, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > LONGEST:
        return [invalid(field, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


RESOURCE = ResourceDefinition(
    group="authentication.k8s.io",
    version="v1",
    plural="tokenrequests",
    kind="TokenRequest",
    strategy=Strategy(set_defaults=set_defaults, validate=validate),
)
