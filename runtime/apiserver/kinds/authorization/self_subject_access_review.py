"""SelfSubjectAccessReviews (authorization.k8s.io/v1): whether the user of the request may perform an action.

`kubectl auth can-i` sends them.

Source: kubernetes pkg/registry/authorization/selfsubjectaccessreview/rest.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.kinds.authorization.shared.access_reviews import (
    evaluate,
    validate_attributes,
    validate_no_metadata,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.registry.users import AccessControl, User


def review(review: Object, user: User, access: AccessControl) -> list[FieldError]:
    errors = [*validate_attributes(review["spec"]), *validate_no_metadata(review)]
    if not errors:
        evaluate(review, user, access.authorize)
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
