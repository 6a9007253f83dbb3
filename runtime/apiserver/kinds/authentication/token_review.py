"""TokenReviews (authentication.k8s.io/v1), which authenticate a bearer token and return its user.

Source: kubernetes pkg/registry/authentication/tokenreview/storage.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.registry.users import AccessControl, Authenticated, Unauthenticated, User, user_info

UNKNOWN = "invalid bearer token"


def review(review: Object, _user: User, access: AccessControl) -> list[FieldError]:
    """Set the status: the user of the token, or why it is invalid. Raise StatusError (400) if spec.token is empty."""
    spec = review["spec"]
    if not spec.get("token"):
        raise status_errors.bad_request("token is required for TokenReview in authentication")
    match access.authenticate(spec["token"], spec.get("audiences") or ()):
        case Authenticated(of, audiences):
            review["status"] = {"authenticated": True, "user": user_info(of), "audiences": list(audiences)}
        case Unauthenticated(why):
            review["status"] = {"user": {}, "error": f"[{UNKNOWN}, {why}]" if why else UNKNOWN}
    return []


RESOURCE = ResourceDefinition(
    group="authentication.k8s.io",
    version="v1",
    plural="tokenreviews",
    kind="TokenReview",
    namespaced=False,
    verbs=("create",),
    strategy=Strategy(review=review),
)
