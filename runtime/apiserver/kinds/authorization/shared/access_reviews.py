"""Validation and evaluation that SubjectAccessReviews and their Local and Self variants share.

Source: kubernetes pkg/apis/authorization/validation/validation.go, pkg/registry/authorization/*/rest.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.registry.users import Access, Authorize, User

ATTRIBUTES, NON_RESOURCE_ATTRIBUTES = "resourceAttributes", "nonResourceAttributes"


def validate_attributes(spec: Mapping[str, Any]) -> list[FieldError]:
    """Validate that the spec has exactly one of resourceAttributes and nonResourceAttributes."""
    resource, other = spec.get(ATTRIBUTES), spec.get(NON_RESOURCE_ATTRIBUTES)
    if resource is not None and other is not None:
        detail = f"cannot be specified in combination with {ATTRIBUTES}"
        return [invalid(f"spec.{NON_RESOURCE_ATTRIBUTES}", other, detail)]
    if resource is None and other is None:
        detail = f"exactly one of {NON_RESOURCE_ATTRIBUTES} or {ATTRIBUTES} must be specified"
        return [invalid(f"spec.{ATTRIBUTES}", None, detail)]
    return []


def validate_subject(spec: Mapping[str, Any]) -> list[FieldError]:
    if not spec.get("user") and not spec.get("groups"):
        return [invalid("spec.user", "", "at least one of user or group must be specified")]
    return []


def validate_no_metadata(review: Object, *allowed: str) -> list[FieldError]:
    given = {name: value for name, value in review["metadata"].items() if name not in allowed}
    if not given:
        return []
    return [invalid("metadata", review["metadata"], f"must be empty{' except for namespace' if allowed else ''}")]


def subject_of(spec: Mapping[str, Any]) -> User:
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)


def evaluate(review: Object, user: User, authorize: Authorize) -> None:
    """Authorize the user for the attributes in the spec, and write the decision to the status."""
    spec = review["spec"]
    decision = authorize(Access(user, spec.get(ATTRIBUTES) or spec.get(NON_RESOURCE_ATTRIBUTES) or {}))
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.denied:
        status["denied"] = True
    if decision.reason:
        status["reason"] = decision.reason
    review["status"] = status
