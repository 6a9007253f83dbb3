"""ClusterRoles (rbac.authorization.k8s.io/v1): defaults, validation and authorization.

Source: kubernetes pkg/registry/rbac/clusterrole/strategy.go, pkg/apis/rbac/validation/validation.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.kinds.rbac.shared.escalation import confirm_role
from kcm.runtime.apiserver.kinds.rbac.shared.policy_rules import validate_rules
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import items
from kcm.runtime.apiserver.rules.selectors import selects, validate_selector

SELECTORS = "aggregationRule.clusterRoleSelectors"


def set_defaults(role: Object) -> None:
    role.setdefault("rules", None)  # upstream always encodes this field


def validate(role: Object) -> list[FieldError]:
    errors = validate_rules(role, namespaced=False)
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return errors
    selectors = items(aggregation, "clusterRoleSelectors")
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(SELECTORS, detail))
    for i, selector in enumerate(selectors):
        errors += validate_selector(selector, f"{SELECTORS}[{i}]")
        if selects(selector, {}) is None:
            errors.append(invalid(f"{SELECTORS}[{i}]", None, "invalid label selector."))
    return errors


RESOURCE = ResourceDefinition(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="clusterroles",
    kind="ClusterRole",
    namespaced=False,
    strategy=Strategy(
        allow_create_on_update=True,
        set_defaults=set_defaults,
        confirm=confirm_role,
        validate=validate,
    ),
)
