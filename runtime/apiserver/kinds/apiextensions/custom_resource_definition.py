"""CustomResourceDefinitions: validated as far as serving them needs it; their schemas are not looked at.

Source: apiextensions-apiserver pkg/registry/customresourcedefinition/strategy.go,
pkg/apis/apiextensions/v1/defaults.go, pkg/apis/apiextensions/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported, quoted, required
from runtime.apiserver.kinds.shared.names import dns1035_label, dns_subdomain
from runtime.apiserver.kinds.shared.object_meta import IMMUTABLE
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.strategy import Strategy

_APPROVED = "api-approved.kubernetes.io"  # an annotation
_APPROVAL_RULE = "https://github.com/kubernetes/enhancements/pull/1111"
_SCOPES = ("Cluster", "Namespaced")


def set_defaults(definition: Object) -> None:
    """Derives singular and listKind from the kind; acceptedNames in status is set when the resource is served."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {}).setdefault("strategy", "None")


def validate(definition: Object) -> list[FieldError]:
    spec = definition["spec"]
    group, names, name = spec.get("group") or "", spec["names"], definition["metadata"].get("name", "")
    errors: list[FieldError] = []
    if name != f"{names.get('plural') or ''}.{group}":
        errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if not group:
        errors.append(required("spec.group"))
    else:
        errors += [invalid("spec.group", group, text) for text in dns_subdomain(group)]
        if "." not in group:
            errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    errors += _validate_approval(group, definition["metadata"].get("annotations") or {})
    scope = spec.get("scope") or ""
    if not scope:
        errors.append(required("spec.scope"))
    elif scope not in _SCOPES:
        errors.append(not_supported("spec.scope", scope, _SCOPES))
    errors += _validate_versions(spec.get("versions") or [])
    for field in ("plural", "singular", "kind", "listKind"):
        word = names.get(field) or ""
        if not word:
            errors.append(required(f"spec.names.{field}"))
        else:
            errors += [invalid(f"spec.names.{field}", word, text) for text in dns1035_label(word.lower())]
    return errors


def _validate_approval(group: str, annotations: Mapping[str, str]) -> list[FieldError]:
    """Groups of Kubernetes' own need a word in an annotation, as upstream's helpers.GetAPIApprovalState reads it."""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return []
    field, approval = f"metadata.annotations[{_APPROVED}]", annotations.get(_APPROVED) or ""
    must = f"protected groups must have approval annotation {quoted(_APPROVED)}"
    if not approval:
        return [required(field, f"{must}, see {_APPROVAL_RULE}")]
    if approval.startswith("unapproved") or _is_url(approval):
        return []
    why = f'{must} with either a URL or a reason starting with "unapproved", see {_APPROVAL_RULE}'
    return [invalid(field, approval, why)]


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
    except ValueError:
        return False
    return bool(url.scheme and url.netloc)


def _validate_versions(versions: list[Object]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for i, version in enumerate(versions):
        name = version.get("name") or ""
        errors += [invalid(f"spec.versions[{i}].name", name, text) for text in dns1035_label(name)]
        if "openAPIV3Schema" not in (version.get("schema") or {}):
            errors.append(required(f"spec.versions[{i}].schema.openAPIV3Schema"))
        if name in seen:
            errors.append(duplicate(f"spec.versions[{i}].name", name))
        seen.add(name)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", versions, detail))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Group, scope, plural and kind are immutable: stored objects are found by them."""
    now, then = new["spec"], old["spec"]
    errors = [
        invalid(f"spec.{field}", now.get(field), IMMUTABLE)
        for field in ("group", "scope")
        if now.get(field) != then.get(field)
    ]
    errors += [
        invalid(f"spec.names.{field}", now["names"].get(field), IMMUTABLE)
        for field in ("plural", "kind")
        if now["names"].get(field) != then["names"].get(field)
    ]
    return errors


RESOURCE = ResourceDefinition(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        validate=validate,
        allow_unconditional_update=False,
        validate_update=validate_update,
        has_status=True,
    ),
)
