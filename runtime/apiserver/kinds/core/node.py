"""Nodes (core/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/core/node/strategy.go, pkg/apis/core/v1/defaults.go,
pkg/apis/core/validation/validation.go, pkg/printers/internalversion/printers.go (printNode) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object, labels_of
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.pod_spec.validation import TAINT_EFFECTS
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer, wide
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, UNKNOWN, age_cell, condition, first_of, items, name_cell, part
from kcm.runtime.apiserver.rules.ip_addresses import validate_cidr
from kcm.runtime.apiserver.rules.names import dns_subdomain, label_key, label_value
from kcm.runtime.apiserver.rules.numbers import NOT_NEGATIVE
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, boolean_at
from kcm.runtime.apiserver.rules.warnings import of_range
from kcm.runtime.apiserver.schema.inner_forms import inner_form

_INFO = (
    *("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion"),
    *("kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture"),
)
_ROLE_PREFIX, _ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"


def set_defaults(node: Object) -> None:
    """Set missing fields of a Node.

    podCIDRs is set from podCIDR, which has precedence if they differ, or podCIDR from the first of podCIDRs.
    """
    spec = node.setdefault("spec", {})
    if spec.get("podCIDR"):
        if (spec.get("podCIDRs") or [""])[0] != spec["podCIDR"]:
            spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    status = node.setdefault("status", {})
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    # Upstream always encodes these fields.
    status.setdefault("daemonEndpoints", {}).setdefault("kubeletEndpoint", {"Port": 0})
    if len(info := status.setdefault("nodeInfo", {})) < len(_INFO):
        for name in _INFO:
            info.setdefault(name, "")
    for node_condition in status.get("conditions") or ():
        node_condition.setdefault("lastHeartbeatTime", None)
        node_condition.setdefault("lastTransitionTime", None)


def validate(node: Object) -> list[FieldError]:
    errors = [*_wrong_taints(node), *_wrong_amounts(node.get("status") or {})]
    ranges = node["spec"].get("podCIDRs") or []
    wrong = [error for i, cidr in enumerate(ranges) for error in validate_cidr(cidr, f"spec.podCIDRs[{i}]")]
    if not wrong and len(ranges) > 1 and (len(ranges) > 2 or len({":" in cidr for cidr in ranges}) < 2):
        wrong.append(invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family"))
    return errors + wrong


def _wrong_amounts(status: Mapping[str, Any]) -> Iterator[FieldError]:
    for part_ in ("capacity", "allocatable"):
        for name, amount in (status.get(part_) or {}).items():
            if amount[:1] == "-" and parse_quantity(amount) < 0:
                yield invalid(f"status.{part_}.{name}", amount, NOT_NEGATIVE)


def _wrong_taints(node: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(node["spec"].get("taints") or ()):
        field = f"metadata.taints[{i}]"  # upstream's path, although the taints are in spec
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        errors += [invalid(f"{field}.key", key, text) for text in label_key(key)]
        errors += [invalid(f"{field}.value", value, text) for text in label_value(value)]
        if not effect:
            errors.append(required(f"{field}.effect"))
        elif effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{field}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            shown = inner_form(taint, "core.Taint")
            errors.append(duplicate(field, shown)._replace(detail="taints must be unique by key and effect pair"))
        seen.add((key, effect))
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a Node. podCIDRs and providerID are immutable once set."""
    errors = [*_wrong_amounts(new.get("status") or {}), *_wrong_addresses(new), *_wrong_taints(new)]
    now, then = new["spec"], old.get("spec") or {}
    if then.get("podCIDRs") and then["podCIDRs"] != now.get("podCIDRs"):
        errors.append(forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'))
    if then.get("providerID") and then["providerID"] != now.get("providerID"):
        errors.append(forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid'))
    return errors


def _wrong_addresses(node: Object) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for i, address in enumerate((node.get("status") or {}).get("addresses") or ()):
        pair = address.get("type") or "", address.get("address") or ""
        if pair in seen:
            yield duplicate(f"status.addresses[{i}]", inner_form(address, "core.NodeAddress"))
        seen.add(pair)


def warn(node: Object, _old: Object | None) -> Iterator[str]:
    for i, cidr in enumerate(node["spec"].get("podCIDRs") or ()):
        yield from of_range(cidr, f"spec.podCIDRs[{i}]")


def cells(node: Object, now: float) -> list[Any]:
    status = part(node, "status")
    info = part(status, "nodeInfo")
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_cell(node),
        _node_status(node),
        ",".join(_node_roles(labels_of(node))) or NONE,
        age_cell(node, now),
        info.get("kubeletVersion") or "",
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(node: Object) -> str:
    ready = condition(part(node, "status"), "Ready")
    words = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{words},SchedulingDisabled" if part(node, "spec").get("unschedulable") else words


def _node_roles(labels: Mapping[str, str]) -> list[str]:
    roles = {label.removeprefix(_ROLE_PREFIX) for label in labels if label.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE_LABEL, ""))
    return sorted(roles - {""})


def _address(status: Mapping[str, Any], type_: str) -> str:
    return first_of(
        (address.get("address") for address in items(status, "addresses") if address.get("type") == type_), NONE
    )


RESOURCE = ResourceDefinition(
    version="v1",
    plural="nodes",
    kind="Node",
    short_names=("no",),
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        warn=warn,
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_update,
        validate_status_update=validate_update,
        has_status=True,
        status_on_create=True,
        selectable_fields={"spec.unschedulable": boolean_at("spec.unschedulable")},
        unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Status"),
            Column("Roles"),
            AGE,
            Column("Version"),
            wide("Internal-IP"),
            wide("External-IP"),
            wide("OS-Image"),
            wide("Kernel-Version"),
            wide("Container-Runtime"),
        ),
        cells=cells,
    ),
)
