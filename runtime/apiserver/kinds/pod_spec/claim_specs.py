"""Validation of claim specs in PersistentVolumeClaims, StatefulSet templates and ephemeral volumes.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidatePersistentVolumeClaimSpec (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volumes import VOLUME_MODES, wrong_access_modes
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain
from kcm.runtime.apiserver.rules.selectors import validate_selector

Part = Mapping[str, Any]


def wrong_claim_spec(spec: Part, field: str) -> Iterator[FieldError]:
    modes = spec.get("accessModes") or ()
    if not modes:
        yield required(f"{field}.accessModes", "at least 1 access mode is required")
    if spec.get("selector") is not None:
        yield from validate_selector(spec["selector"], f"{field}.selector")
    yield from wrong_access_modes(modes, f"{field}.accessModes")
    yield from _wrong_request(((spec.get("resources") or {}).get("requests") or {}).get("storage"), field)
    for name in ("storageClassName", "volumeAttributesClassName"):
        if value := spec.get(name):
            yield from (invalid(f"{field}.{name}", value, text) for text in dns_subdomain(value))
    if spec.get("volumeMode") not in (None, *VOLUME_MODES):
        yield not_supported(f"{field}.volumeMode", spec["volumeMode"], VOLUME_MODES)
    yield from _wrong_sources(spec, field)


def _wrong_request(amount: str | None, field: str) -> Iterator[FieldError]:
    at = f"{field}.resources[storage]"
    if amount is None:
        yield required(at)
    elif parse_quantity(amount) <= 0:
        yield invalid(at, amount, "must be greater than zero")


def _wrong_sources(spec: Part, field: str) -> Iterator[FieldError]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    for name, given in (("dataSource", source), ("dataSourceRef", reference)):
        if given is not None:
            yield from _wrong_source(given, f"{field}.{name}")
    if reference is None:
        return
    if namespace := reference.get("namespace"):
        yield from (invalid(f"{field}.dataSourceRef.namespace", namespace, text) for text in dns_label(namespace))
        if source is not None:
            yield invalid(field, {}, "may not be specified when dataSourceRef.namespace is specified")
    elif source is not None and _identity(source) != _identity(reference):
        yield invalid(field, {}, "must match dataSourceRef")


def _wrong_source(source: Part, field: str) -> Iterator[FieldError]:
    for name in ("name", "kind"):
        if not source.get(name):
            yield required(f"{field}.{name}")
    kind, group = source.get("kind") or "", source.get("apiGroup") or ""
    if not group and kind != "PersistentVolumeClaim":
        yield invalid(field, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    if group:
        yield from (invalid(f"{field}.apiGroup", group, text) for text in dns_subdomain(group))


def _identity(source: Part) -> tuple[str, str, str | None]:
    return source.get("kind") or "", source.get("name") or "", source.get("apiGroup")
