"""Validation of the rules of Roles and ClusterRoles.

Source: kubernetes pkg/apis/rbac/validation/validation.go, ValidatePolicyRule (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.rules.cells import items


def validate_rules(role: Object, *, namespaced: bool) -> list[FieldError]:
    return [
        error
        for i, rule in enumerate(items(role, "rules"))
        for error in _validate_rule(rule, f"rules[{i}]", namespaced=namespaced)
    ]


def _validate_rule(rule: Object, field: str, *, namespaced: bool) -> list[FieldError]:
    errors = []
    if not rule.get("verbs"):
        errors.append(required(f"{field}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(f"{field}.nonResourceURLs", urls, detail))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{field}.nonResourceURLs", urls, detail))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{field}.resources", "resource rules must supply at least one resource"))
    return errors
