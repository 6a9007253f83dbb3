"""SelfSubjectAccessReviews: may I do that? As `kubectl auth can-i` asks.

Source: kubernetes pkg/registry/authorization/selfsubjectaccessreview/rest.go (v1.36).
"""

from __future__ import annotations

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError
from runtime.apiserver.kinds.authorization.shared.access_reviews import (
    answer,
    validate_attributes,
    validate_no_metadata,
)
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import Strategy
from runtime.apiserver.registry.users import AccessControl, User


def review(review: Object, user: User, access: AccessControl) -> list[FieldError]:
    errors = [*validate_attributes(review["spec"]), *validate_no_metadata(review)]
    if not errors:
        answer(review, user, access.authorize)
    return errors


RESOURCE = ResourceDefinition(
    group="authorization.k8s.io",
    version="v1",
    plural="selfsubjectaccessreviews",
    kind="SelfSubjectAccessReview",
    namespaced=False,
    verbs=("create",),
    strategy=Strategy(review=review),
)
