"""Validation of the metadata that all objects have.

Source: apimachinery pkg/api/validation/objectmeta.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, quoted, required, too_long
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.rules.names import dns_label, label_key, label_value, path_segment

ANNOTATIONS_LIMIT = 256 * 1024  # bytes, keys and values together
MOST_OWNER_ERRORS = 10  # later errors do not show all references, or the text would grow with their square
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
# Groups that upstream serves from separate API servers.
_OTHER_GROUPS = ("apiextensions.k8s.io", "apiregistration.k8s.io")
IMMUTABLE = "field is immutable"


def validate_metadata(definition: ResourceDefinition, meta: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    rules = (
        (path_segment,)
        if definition.strategy.validate_name is None
        else (definition.strategy.validate_name, path_segment)
    )
    base, name = meta.get("generateName"), meta.get("name")
    if base and not name:
        errors += [invalid("metadata.generateName", base, text) for rule in rules for text in rule(_masked(base))]
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    else:
        errors += [invalid("metadata.name", name, text) for rule in rules for text in rule(name)]
    if definition.namespaced:
        if not meta.get("namespace"):
            errors.append(required("metadata.namespace"))
        else:
            problems = dns_label(meta["namespace"])
            errors += [invalid("metadata.namespace", meta["namespace"], text) for text in problems]
    errors += validate_labels(meta.get("labels") or {}, "metadata.labels")
    errors += validate_annotations(meta.get("annotations") or {}, "metadata.annotations")
    errors += _validate_owner_references(meta.get("ownerReferences") or [])
    finalizers = meta.get("finalizers") or []
    errors += [
        invalid("metadata.finalizers", finalizer, text) for finalizer in finalizers for text in label_key(finalizer)
    ]
    if finalizers and not definition.dynamic and definition.group not in _OTHER_GROUPS:
        errors += wrong_finalizers(finalizers, "metadata.finalizers")
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        both = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid("metadata.finalizers", finalizers, both))
    return errors


def wrong_finalizers(finalizers: Sequence[str], field: str, *, numbered: bool = True) -> list[FieldError]:
    """Return errors for finalizers that neither have a domain nor are standard finalizers of Kubernetes.

    numbered: whether the error's field includes the index.
    """
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{field}[{i}]" if numbered else field, finalizer, detail)
        for i, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _shown_owner(reference: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: reference.get(name) or "" for name in ("apiVersion", "kind", "name", "uid")}
    return {**shown, **{name: reference[name] for name in ("controller", "blockOwnerDeletion") if name in reference}}


def validate_metadata_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        extra = sorted(set(new.get("finalizers") or []) - set(old.get("finalizers") or []))
        if extra:
            shown = ", ".join(quoted(finalizer) for finalizer in extra)
            detail = "no new finalizers can be added if the object is being deleted, found new finalizers []string{%s}"
            errors.append(forbidden("metadata.finalizers", detail % shown))
    errors += [
        invalid(f"metadata.{field}", new.get(field), IMMUTABLE)
        for field in ("name", "namespace", "uid")
        if new.get(field) != old.get(field)
    ]
    return errors


def validate_labels(labels: Mapping[str, str], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += [invalid(field, key, text) for text in label_key(key)]
        errors += [invalid(field, value, text) for text in label_value(value)]
    return errors


def _masked(base: str) -> str:
    """Return the name to validate for a generateName. It may end in a hyphen, because generated characters follow."""
    return f"{base[:-1]}a" if len(base) > 1 and base.endswith("-") else base


def validate_annotations(annotations: Mapping[str, str], field: str) -> list[FieldError]:
    if not annotations:
        return []
    errors = [invalid(field, key, text) for key in annotations for text in label_key(key.lower())]
    if sum(len(key) + len(value) for key, value in annotations.items()) > ANNOTATIONS_LIMIT:
        errors.append(too_long(field, ANNOTATIONS_LIMIT))
    return errors


def _validate_owner_references(references: Sequence[Mapping[str, Any]]) -> list[FieldError]:
    errors: list[FieldError] = []
    field, controller = "metadata.ownerReferences", ""
    for reference in references:
        if not (reference.get("apiVersion") or "").rpartition("/")[2]:
            errors.append(
                invalid(f"{field}.apiVersion", reference.get("apiVersion") or "", "version must not be empty")
            )
        errors += [
            invalid(f"{field}.{part}", "", "must not be empty")
            for part in ("kind", "name", "uid")
            if not reference.get(part)
        ]
        if reference.get("kind") == "Event" and reference.get("apiVersion") == "v1":
            detail = "/v1, Kind=Event is disallowed from being an owner"
            errors.append(invalid(field, _shown_owner(reference), detail))
        if reference.get("controller"):
            this = f"{reference.get('kind')}/{reference.get('name')}"
            if controller and len(errors) < MOST_OWNER_ERRORS:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}"
                )
                errors.append(invalid(field, [_shown_owner(owner) for owner in references], detail))
            controller = controller or this
    return errors
