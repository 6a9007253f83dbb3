"""SelfSubjectReviews (authentication.k8s.io/v1), which return the user of the request, as for `kubectl auth whoami`.

Source: kubernetes pkg/registry/authentication/selfsubjectreview/rest.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.registry.users import AccessControl, User, user_info


def review(review: Object, user: User, _access: AccessControl) -> list[FieldError]:
    """Set status.userInfo to the user of the request. All other fields of the review are ignored."""
    review["status"] = {"userInfo": user_info(user)}
    return []


RESOURCE = ResourceDefinition(
    group="authentication.k8s.io",
    version="v1",
    plural="selfsubjectreviews",
    kind="SelfSubjectReview",
    namespaced=False,
    verbs=("create",),
    strategy=Strategy(review=review),
)
