"""SubjectAccessReviews (authorization.k8s.io/v1): whether a given user may perform an action.

Source: kubernetes pkg/registry/authorization/subjectaccessreview/rest.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.kinds.authorization.shared.access_reviews import (
    evaluate,
    subject_of,
    validate_attributes,
    validate_no_metadata,
    validate_subject,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.registry.users import AccessControl, User


def review(review: Object, _user: User, access: AccessControl) -> list[FieldError]:
    spec = review["spec"]
    errors = [*validate_attributes(spec), *validate_subject(spec), *validate_no_metadata(review)]
    if not errors:
        evaluate(review, subject_of(spec), access.authorize)
    return errors


RESOURCE = ResourceDefinition(
    group="authorization.k8s.io",
    version="v1",
    plural="subjectaccessreviews",
    kind="SubjectAccessReview",
    namespaced=False,
    verbs=("create",),
    strategy=Strategy(review=review),
)
