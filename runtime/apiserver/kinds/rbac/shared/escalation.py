"""Prevention of privilege escalation through roles and bindings.

Users can grant only permissions that they have themselves, unless they have the verb escalate for the role, or the verb
bind for the role that a binding refers to.

Source: kubernetes pkg/registry/rbac/{escalation_check,helpers}.go, pkg/registry/rbac/validation/rule.go
(ConfirmNoEscalation), pkg/registry/rbac/*/policybased/storage.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kcm.protocols.objects import Object, name_of, namespace_of
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.registry.policy_rules import FULL_AUTHORITY, Rule, compact, missing, rules_in, shown_list
from kcm.runtime.apiserver.registry.users import MASTERS, Access, AccessControl, User

GROUP = "rbac.authorization.k8s.io"
_GC_FIELDS = ("ownerReferences", "finalizers", "selfLink", "managedFields")
_ROLE = re.compile(r"\b(?:cluster)?role(?=\.rbac\.)")
_PLURALS = {"Role": "roles", "ClusterRole": "clusterroles"}


def confirm_role(new: Object, old: Object | None, user: User, access: AccessControl) -> None:
    """Raise StatusError (403) if the user may not write the Role or ClusterRole.

    old: the stored role; None for a new one
    """
    namespace = namespace_of(new)
    plural = "roles" if namespace else "clusterroles"
    attributes = {
        "verb": "escalate",
        "resource": plural,
        "namespace": namespace,
        "name": access.name,
    }
    if _is_allowed(access, user, attributes) or changes_only_gc_fields(new, old):
        return
    error = _missing_permissions(access, user, new, plural, rules_in(new))
    if (
        not error
        and (_aggregates(new) or _aggregates(old or {}))
        and _missing_permissions(access, user, new, plural, FULL_AUTHORITY)
    ):
        error = "must have cluster-admin privileges to use the aggregationRule"
    if error:
        raise status_errors.forbidden(GROUP, plural, name_of(new), error)


def confirm_binding(new: Object, old: Object | None, user: User, access: AccessControl) -> None:
    """Raise StatusError if the user may not write the binding: 403, or 404 if the role does not exist.

    old: the stored binding; None for a new one
    """
    namespace, role = namespace_of(new), new.get("roleRef") or {}
    plural = "rolebindings" if namespace else "clusterrolebindings"
    kind, name = role.get("kind", ""), role.get("name", "")
    attributes = {"verb": "bind", "resource": _PLURALS.get(kind, ""), "namespace": namespace, "name": name}
    if (
        MASTERS in user.groups
        or changes_only_gc_fields(new, old)
        or (kind in _PLURALS and _is_allowed(access, user, attributes))
    ):
        return
    if kind not in _PLURALS:
        raise status_errors.without_reason(f"unsupported role reference kind: {quoted(kind)}")
    rules = access.resolver.role_rules(kind, name, namespace)
    if rules is None:
        raise status_errors.not_found(
            GROUP, plural, name
        )  # upstream reports the binding's resource, not the missing role's
    error = _missing_permissions(access, user, new, plural, rules)
    if error:
        raise status_errors.forbidden(GROUP, plural, name_of(new), error)


def _is_allowed(access: AccessControl, user: User, attributes: dict[str, Any]) -> bool:
    if MASTERS in user.groups:
        return True
    return access.authorize(Access(user, {"group": GROUP, "version": "*", **attributes})).allowed


def _missing_permissions(access: AccessControl, user: User, new: Object, plural: str, rules: Sequence[Rule]) -> str:
    """Return the error text for rules whose permissions the user lacks; "" if the user has all of them.

    plural: resource of `new`, for error texts
    """
    has = access.resolver.rules_for(user, namespace_of(new))
    lacking = missing(has.rules, rules)
    if not lacking:
        return ""
    shown = "\n".join(sorted({str(rule) for rule in compact(lacking)}))
    text = (
        f"user {quoted(user.name)} (groups={shown_list(user.groups)}) is attempting to grant RBAC permissions not "
        f"currently held:\n{shown}"
    )
    if has.error:  # upstream reports a missing role under the binding's resource
        text += f"; resolution errors: [{_ROLE.sub(plural, has.error)}]"
    return text


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def changes_only_gc_fields(new: Object, old: Object | None) -> bool:
    """Report whether an update changes only metadata that the garbage collector changes, such as finalizers.

    The garbage collector may do this without the permissions that the role grants.
    """
    if old is None:
        return False
    kept = {**new["metadata"], **{field: old["metadata"].get(field) for field in _GC_FIELDS}}
    return {**new, "metadata": {name: value for name, value in kept.items() if value is not None}} == old
