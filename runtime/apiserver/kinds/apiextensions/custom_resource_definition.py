"""CustomResourceDefinitions (apiextensions.k8s.io/v1): defaults and validation.

Source: apiextensions-apiserver pkg/registry/customresourcedefinition/strategy.go,
pkg/apis/apiextensions/v1/defaults.go, pkg/apis/apiextensions/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.apiextensions.openapi_rules import Leniency, leniency
from kcm.runtime.apiserver.apiextensions.versions import schema_of, validate_alike, validate_versions
from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    quoted,
    required,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Allocating, Strategy
from kcm.runtime.apiserver.rules.names import dns1035_label, dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.webhook_clients import wrong_client, wrong_review_versions

_APPROVED = "api-approved.kubernetes.io"  # an annotation
_APPROVAL_RULE = "https://github.com/kubernetes/enhancements/pull/1111"
_SCOPES = ("Cluster", "Namespaced")
_STRATEGIES = ("None", "Webhook")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_STRICT = Leniency()
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"  # finalizer: removed once the custom objects are deleted


def set_defaults(definition: Object) -> None:
    """Set the default names and conversion strategy. status.acceptedNames is set later, when the resource is served."""
    spec = definition.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if kind and not names.get("singular"):
        names["singular"] = kind.lower()
    if kind and not names.get("listKind"):
        names["listKind"] = f"{kind}List"
    conversion = spec.setdefault("conversion", {"strategy": "None"})
    service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def add_stored_version(definition: Object) -> None:
    """Add the storage version to status.storedVersions, as objects are written in this version from now on."""
    status = definition.setdefault("status", {})
    for version in definition["spec"].get("versions") or ():
        if version.get("storage"):
            stored = status.get("storedVersions") or []
            if version.get("name") not in stored:
                status["storedVersions"] = [*stored, version.get("name")]
            break


def _begin_update(_among: Allocating, new: Object, _old: Object) -> None:
    if "status" in new:
        new["status"] = dict(new["status"])  # the new object shares its status with the old one
    add_stored_version(new)


def validate(definition: Object) -> list[FieldError]:
    spec, meta = definition["spec"], definition["metadata"]
    name, required_name = meta.get("name", ""), f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}"
    errors = (
        [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')] if name != required_name else []
    )
    return [
        *errors,
        *_spec_errors(spec, _STRICT),
        *_stored_version_errors(definition),
        *_approval_errors(spec.get("group") or "", meta.get("annotations") or {}),
        *_preserve_errors(spec),
    ]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a CustomResourceDefinition.

    Group and plural are immutable, as they are part of the keys of stored objects. Scope and kind are immutable once
    the condition Established is True.
    """
    now, then = new["spec"], old["spec"]
    schemas = [schema for version in then.get("versions") or () if (schema := schema_of(version)) is not None]
    errors = list(_spec_errors(now, leniency(schemas)))
    immutable = [("group", now.get("group"), then.get("group"))]
    immutable.append(("names.plural", now["names"].get("plural"), then["names"].get("plural")))
    if is_established(old):
        immutable[:0] = [
            ("scope", now.get("scope"), then.get("scope")),
            ("names.kind", now["names"].get("kind"), then["names"].get("kind")),
        ]
    errors += [invalid(f"spec.{field}", value, IMMUTABLE) for field, value, former in immutable if value != former]
    errors += _stored_version_errors(new)
    approvals = [
        _approval_errors(now.get("group") or "", definition["metadata"].get("annotations") or {})
        for definition in (new, old)
    ]
    if _kinds(approvals[0]) != _kinds(approvals[1]):
        errors += approvals[0]
    return errors if then.get("preserveUnknownFields") else [*errors, *_preserve_errors(now)]


def _kinds(errors: list[FieldError]) -> list[str]:
    return [error.type for error in errors]


def is_established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions)


def _spec_errors(spec: Object, lenient: Leniency) -> Iterator[FieldError]:
    group, names, versions = spec.get("group") or "", spec["names"], spec.get("versions") or []
    if not group:
        yield required("spec.group")
    elif wrong := dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    scope = spec.get("scope") or ""
    if not scope:
        yield required("spec.scope")
    elif scope not in _SCOPES:
        yield not_supported("spec.scope", scope, _SCOPES)
    of_versions = list(validate_versions(versions, lenient))
    yield from of_versions
    given = [version.get("name") or "" for version in versions]
    for i, name in enumerate(given):
        if wrong := dns1035_label(name):
            yield invalid(f"spec.versions[{i}].name", name, ",".join(wrong))
    if len(set(given)) < len(given):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", versions, detail)
    if given and given[0] and (wrong := dns1035_label(given[0])):
        yield invalid("spec.version", given[0], ",".join(wrong))
    yield from (
        required(f"spec.names.{field}") for field in ("plural", "singular", "kind", "listKind") if not names.get(field)
    )
    yield from _name_errors(names, "spec.names")
    yield from validate_alike(versions, lenient)
    yield from _conversion_errors(spec.get("conversion") or {}, "spec.conversion")


def _name_errors(names: Object, path: str) -> Iterator[FieldError]:
    for field in ("plural", "singular"):
        if names.get(field) and (wrong := dns1035_label(names[field])):
            yield invalid(f"{path}.{field}", names[field], ",".join(wrong))
    for field in ("kind", "listKind"):
        if names.get(field) and (wrong := dns1035_label(names[field].lower())):
            detail = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            yield invalid(f"{path}.{field}", names[field], detail)
    for field in ("shortNames", "categories"):
        if field == "categories" and names.get("kind") and names["kind"] == names.get("listKind"):
            yield invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same")
        for i, word in enumerate(names.get(field) or ()):
            if wrong := dns1035_label(word):
                yield invalid(f"{path}.{field}[{i}]", word, ",".join(wrong))


def _conversion_errors(conversion: Object, path: str) -> Iterator[FieldError]:
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    of_client, of_versions = f"{path}.webhookClientConfig", f"{path}.conversionReviewVersions"
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported(f"{path}.strategy", strategy, _STRATEGIES)
    if strategy != "Webhook":
        unless = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield forbidden(of_client, unless)
        if versions:
            yield forbidden(of_versions, unless)
        return
    if client is None:
        yield required(of_client, "required when strategy is set to Webhook")
    else:
        yield from wrong_client(client, of_client)
    yield from wrong_review_versions(versions, of_versions)


def _stored_version_errors(definition: Object) -> Iterator[FieldError]:
    stored = (definition.get("status") or {}).get("storedVersions") or []
    versions, path = definition["spec"].get("versions") or [], "status.storedVersions"
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            yield invalid(path, stored, f"must have the storage version {version.get('name')}")
    given = {version.get("name") for version in versions}
    for i, name in enumerate(stored):
        if name not in given:
            until = f"a storage migration ensures no data remains persisted in {name} and removes {name} from {path}"
            must = f"must remain in spec.versions until {until}"
            detail = f"missing from spec.versions; {name} was previously a storage version, and {must}"
            yield invalid(f"{path}[{i}]", name, detail)


def _preserve_errors(spec: Object) -> Iterator[FieldError]:
    if spec.get("preserveUnknownFields"):
        instead = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, f"cannot set to true, {instead}")


def _approval_errors(group: str, annotations: Mapping[str, str]) -> list[FieldError]:
    """Validate the approval annotation, which definitions in the groups *.k8s.io and *.kubernetes.io must have.

    Valid values are a URL and texts that begin with "unapproved".

    Source: apiextensions-apiserver pkg/apihelpers/helpers.go, GetAPIApprovalState (v1.36).
    """
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
        prepare_for_create=add_stored_version,
        validate=validate,
        allow_unconditional_update=False,
        reallocate=_begin_update,
        validate_update=validate_update,
        update_is_judged_whole=True,
        has_status=True,
        finalizer_on_delete=CLEANUP,
        empty_status={"acceptedNames": {"plural": "", "kind": ""}, "conditions": None, "storedVersions": None},
    ),
)
