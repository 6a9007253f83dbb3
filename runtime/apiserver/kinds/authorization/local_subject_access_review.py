"""LocalSubjectAccessReviews (authorization.k8s.io/v1): whether a given user may perform an action in one namespace.

Source: kubernetes pkg/registry/authorization/localsubjectaccessreview/rest.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.kinds.authorization.shared.access_reviews import (
    ATTRIBUTES,
    NON_RESOURCE_ATTRIBUTES,
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
    spec, namespace = review["spec"], review["metadata"].get("namespace", "")
    errors = [*validate_attributes(spec), *validate_subject(spec), *validate_no_metadata(review, "namespace")]
    requested = (spec.get(ATTRIBUTES) or {}).get("namespace", "")
    if spec.get(ATTRIBUTES) is not None and requested != namespace:
        errors.append(invalid("spec.resourceAttributes.namespace", requested, "must match metadata.namespace"))
    if spec.get(NON_RESOURCE_ATTRIBUTES) is not None:
        detail = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", spec[NON_RESOURCE_ATTRIBUTES], detail))
    if not errors:
        evaluate(review, subject_of(spec), access.authorize)
    return errors


RESOURCE = ResourceDefinition(
    group="authorization.k8s.io",
    version="v1",
    plural="localsubjectaccessreviews",
    kind="LocalSubjectAccessReview",
    verbs=("create",),
    strategy=Strategy(review=review),
)
