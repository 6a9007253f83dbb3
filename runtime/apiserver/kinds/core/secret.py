"""Secrets.

Source: kubernetes pkg/registry/core/secret/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation/validation.go, pkg/printers/internalversion/printers.go (printSecret) (v1.36).
"""

from __future__ import annotations

import base64
from typing import Any

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError, invalid, required
from runtime.apiserver.kinds.shared.cells import age_cell, name_cell
from runtime.apiserver.kinds.shared.data import validate_data, validate_immutable_data
from runtime.apiserver.kinds.shared.names import dns_subdomain
from runtime.apiserver.kinds.shared.object_meta import IMMUTABLE
from runtime.apiserver.kinds.shared.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, fields_at
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def set_defaults(secret: Object) -> None:
    """stringData is write-only: it is merged into data."""
    if not secret.get("type"):
        secret["type"] = "Opaque"
    texts = secret.pop("stringData", None)
    if texts:
        data = secret.setdefault("data", {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def validate(secret: Object) -> list[FieldError]:
    data = secret.get("data") or {}
    errors = validate_data(data, "data")
    needed = {"kubernetes.io/tls": ("tls.crt", "tls.key"), "kubernetes.io/ssh-auth": ("ssh-privatekey",)}
    errors += [required(f"data[{key}]") for key in needed.get(secret["type"], ()) if key not in data]
    account = (secret["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name")
    if secret["type"] == "kubernetes.io/service-account-token" and not account:
        errors.append(required("metadata.annotations[kubernetes.io/service-account.name]"))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    errors = validate_immutable_data(new, old, ("data",))
    if new["type"] != old.get("type"):
        errors.append(invalid("type", new["type"], IMMUTABLE))
    return errors


def cells(secret: Object, now: float) -> list[Any]:
    return [name_cell(secret), secret.get("type") or "", len(secret.get("data") or ()), age_cell(secret, now)]


RESOURCE = ResourceDefinition(
    version="v1",
    plural="secrets",
    kind="Secret",
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_update,
        selectable_fields=fields_at("type"),
        unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Type"),
            Column("Data"),
            AGE,
        ),
        cells=cells,
    ),
)
