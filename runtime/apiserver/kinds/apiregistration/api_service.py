"""APIServices (apiregistration.k8s.io/v1): defaults, validation and table columns.

APIServices are stored only: the embedded server proxies no requests to the services that they name.

Source: kube-aggregator pkg/registry/apiservice/{strategy.go,etcd/etcd.go}, pkg/apis/apiregistration/v1/defaults.go,
pkg/apis/apiregistration/validation/validation.go (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, quoted, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, condition, items, name_cell, part
from kcm.runtime.apiserver.rules.names import dns1035_label, dns_subdomain, path_segment
from kcm.runtime.apiserver.rules.numbers import port_problems

_STATUSES = ("False", "True", "Unknown")
_HIGHEST = {"groupPriorityMinimum": 20_000, "versionPriority": 1000}


def set_defaults(service: Object) -> None:
    backend = service["spec"].get("service")
    if backend is not None:
        backend.setdefault("port", 443)


def prepare_for_create(service: Object) -> None:
    """Set the first status of an APIService.

    Without spec.service, the group version is served by this server, and the condition Available is True.
    """
    service["status"] = {}
    if service["spec"].get("service") is None:
        available = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": service["metadata"]["creationTimestamp"],
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        service["status"] = {"conditions": [available]}


def validate(service: Object) -> list[FieldError]:
    spec, name = service["spec"], name_of(service)
    group, version = spec.get("group") or "", spec.get("version") or ""
    expected, errors = f"{version}.{group}", []
    if name != expected and not path_segment(name):
        detail = f'must be `spec.version+"."+spec.group`: {quoted(expected)}'
        errors.append(invalid("metadata.name", name, detail))
    if not group and version != "v1":
        errors.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
    if group:
        errors += [invalid("spec.group", group, text) for text in dns_subdomain(group)]
    errors += [invalid("spec.version", version, text) for text in dns1035_label(version)]
    for field, highest in _HIGHEST.items():
        priority = spec.get(field) or 0
        if not 0 < priority <= highest:
            errors.append(invalid(f"spec.{field}", priority, f"must be positive and less than {highest}"))
    insecure, bundle = bool(spec.get("insecureSkipTLSVerify")), spec.get("caBundle") or ""
    if spec.get("service") is None:
        if bundle:
            size = len(bundle) * 3 // 4 - bundle.count("=")
            errors.append(invalid("spec.caBundle", f"{size} bytes", "local APIServices may not have a caBundle"))
        if insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid("spec.insecureSkipTLSVerify", insecure, detail))
        return errors
    errors += [required(f"spec.service.{field}") for field in ("namespace", "name") if not spec["service"].get(field)]
    port = spec["service"].get("port") or 0
    if problems := port_problems(port):
        errors.append(invalid("spec.service.port", port, f"port is not valid: {', '.join(problems)}"))
    if insecure and bundle:
        errors.append(invalid("spec.insecureSkipTLSVerify", insecure, "may not be true if caBundle is present"))
    return errors


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    return [
        not_supported(f"status.conditions[{i}].status", condition.get("status") or "", _STATUSES)
        for i, condition in enumerate(items(part(new, "status"), "conditions"))
        if condition.get("status") not in _STATUSES
    ]


def cells(service: Object, now: float) -> list[Any]:
    backend, status = part(service, "spec").get("service"), "Unknown"
    available = condition(part(service, "status"), "Available")
    if available is not None:
        status = str(available.get("status") or "")
        if status != "True" and available.get("reason"):
            status = f"{status} ({available['reason']})"
    where = "Local" if backend is None else f"{backend.get('namespace') or ''}/{backend.get('name') or ''}"
    return [name_cell(service), where, status, age_cell(service, now)]


RESOURCE = ResourceDefinition(
    group="apiregistration.k8s.io",
    version="v1",
    plural="apiservices",
    kind="APIService",
    categories=("api-extensions",),
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        set_defaults=set_defaults,
        prepare_for_create=prepare_for_create,
        validate=validate,
        allow_unconditional_update=False,
        has_status=True,
        status_update_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
        validate_status_update=validate_status_update,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Service"),
            Column("Available"),
            AGE,
        ),
        cells=cells,
    ),
)
