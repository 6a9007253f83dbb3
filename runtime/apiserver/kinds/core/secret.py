"""Secrets (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/secret/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation/validation.go, pkg/printers/internalversion/printers.go (printSecret) (v1.36).
"""

from __future__ import annotations

import base64
import json
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required, too_long
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell
from kcm.runtime.apiserver.rules.data import DATA_LIMIT, size_of, validate_immutable_data, validate_keys
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, fields_at
from kcm.runtime.apiserver.schema.scalars import json_type

_DOCKER = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_REDACTED, _CUT_SHORT = "<secret contents redacted>", "unexpected end of JSON input"


def set_defaults(secret: Object) -> None:
    """Set the default type, and merge the write-only field stringData into data."""
    if not secret.get("type"):
        secret["type"] = "Opaque"
    texts = secret.pop("stringData", None)
    if texts:
        data = secret.setdefault("data", {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def validate(secret: Object) -> list[FieldError]:
    data = secret.get("data") or {}
    errors = validate_keys(data, "data")
    if size_of(data) > DATA_LIMIT:
        errors.append(too_long("data", DATA_LIMIT))
    needed = {"kubernetes.io/tls": ("tls.crt", "tls.key"), "kubernetes.io/ssh-auth": ("ssh-privatekey",)}
    errors += [required(f"data[{key}]") for key in needed.get(secret["type"], ()) if key not in data]
    if secret["type"] == "kubernetes.io/basic-auth" and data.keys().isdisjoint(("username", "password")):
        errors += [required(f"data[{key}]") for key in ("username", "password")]
    if (key := _DOCKER.get(secret["type"])) is not None:
        errors += _wrong_registries(data, key)
    account = (secret["metadata"].get("annotations") or {}).get("kubernetes.io/service-account.name")
    if secret["type"] == "kubernetes.io/service-account-token" and not account:
        errors.append(required("metadata.annotations[kubernetes.io/service-account.name]"))
    return errors


def _wrong_registries(data: Object, key: str) -> list[FieldError]:
    """Validate that a Docker configuration is a JSON object. Its content is not checked.

    key: key of the configuration in data
    """
    field = f"data[{key}]"
    if key not in data:
        return [required(field)]
    text = base64.b64decode(data[key]).decode(errors="replace")
    try:
        value = json.loads(text)
    except ValueError as err:
        place = err.pos if isinstance(err, json.JSONDecodeError) else 0
        found = f"invalid character '{text[place]}' looking for beginning of value" if text[place:] else _CUT_SHORT
        return [invalid(field, _REDACTED, found)]
    if isinstance(value, dict) or value is None:
        return []
    why = f"json: cannot unmarshal {json_type(value)} into Go value of type map[string]interface {{}}"
    return [invalid(field, _REDACTED, why)]


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
