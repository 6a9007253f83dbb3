"""NetworkPolicies (networking.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/networking/networkpolicy/strategy.go, pkg/printers/internalversion/printers.go
(printNetworkPolicy) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.pod_spec.handlers import port_name_problems
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, part, selector_cell
from kcm.runtime.apiserver.rules.ip_addresses import validate_cidr
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.numbers import port_problems
from kcm.runtime.apiserver.rules.selectors import validate_selector
from kcm.runtime.apiserver.rules.warnings import of_range

_TYPES, _PROTOCOLS = ("Ingress", "Egress"), ("TCP", "UDP", "SCTP")

Part = Mapping[str, Any]


def set_defaults(policy: Object) -> None:
    spec = policy["spec"]
    spec.setdefault("podSelector", {})
    for way in ("ingress", "egress"):
        for rule in items(spec, way):
            for port in items(rule, "ports"):
                port["protocol"] = port.get("protocol") or "TCP"
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def validate(policy: Object) -> list[FieldError]:
    spec = policy["spec"]
    errors = validate_selector(spec["podSelector"], "spec.podSelector")
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(items(spec, way)):
            at = f"spec.{way}[{i}]"
            for j, port in enumerate(items(rule, "ports")):
                errors += _wrong_port(port, f"{at}.ports[{j}]")
            for j, peer in enumerate(items(rule, peers)):
                errors += _wrong_peer(peer, f"{at}.{peers}[{j}]")
    types = spec["policyTypes"]
    if len(types) > len(_TYPES):
        return [*errors, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
    unknown = [(i, type_) for i, type_ in enumerate(types) if type_ not in _TYPES]
    return errors + [not_supported(f"spec.policyTypes[{i}]", type_, _TYPES) for i, type_ in unknown]


def _wrong_port(port: Part, field: str) -> Iterator[FieldError]:
    if port["protocol"] not in _PROTOCOLS:
        yield not_supported(f"{field}.protocol", port["protocol"], _PROTOCOLS)
    number, end, at = port.get("port"), port.get("endPort"), f"{field}.endPort"
    if number is None:
        if end is not None:
            yield invalid(at, end, "may not be specified when `port` is not specified")
        return
    for text in port_problems(number) if isinstance(number, int) else port_name_problems(number):
        yield invalid(f"{field}.port", number, text)
    if end is None:
        return
    if not isinstance(number, int):
        yield invalid(at, end, "may not be specified when `port` is non-numeric")
        return
    if end < number:
        yield invalid(at, number, "must be greater than or equal to `port`")
    for text in port_problems(end):
        yield invalid(at, end, text)


def _wrong_peer(peer: Part, field: str) -> Iterator[FieldError]:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    for name in given:
        if name == "ipBlock":
            yield from _wrong_block(peer[name], f"{field}.{name}")
        else:
            yield from validate_selector(peer[name], f"{field}.{name}")
    if not given:
        yield required(field, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield forbidden(field, "may not specify both ipBlock and another peer")


def _wrong_block(block: Part, field: str) -> Iterator[FieldError]:
    cidr = block.get("cidr") or ""
    if not cidr:
        yield required(f"{field}.cidr")
        return
    wrong = validate_cidr(cidr, f"{field}.cidr")
    yield from wrong
    if wrong:
        return
    whole = ip_network(cidr, strict=False)
    for i, excluded in enumerate(items(block, "except")):
        at = f"{field}.except[{i}]"
        problems = validate_cidr(excluded, at)
        yield from problems
        if not problems:
            part_ = ip_network(excluded, strict=False)
            inside = part_.version == whole.version and part_.network_address in whole
            if not inside or part_.prefixlen <= whole.prefixlen:
                yield invalid(at, excluded, "must be a strict subset of `cidr`")


def warn(policy: Object, _old: Object | None) -> Iterator[str]:
    spec = policy["spec"]
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(direction) or ()):
            for j, peer in enumerate(rule.get(peers) or ()):
                block, at = peer.get("ipBlock") or {}, f"spec.{direction}[{i}].{peers}[{j}].ipBlock"
                yield from of_range(block.get("cidr") or "", f"{at}.cidr")
                for k, cidr in enumerate(block.get("except") or ()):
                    yield from of_range(cidr, f"{at}.except[{k}]")


def cells(policy: Object, now: float) -> list[Any]:
    return [name_cell(policy), selector_cell(part(policy, "spec", "podSelector")), age_cell(policy, now)]


RESOURCE = ResourceDefinition(
    group="networking.k8s.io",
    version="v1",
    plural="networkpolicies",
    kind="NetworkPolicy",
    short_names=("netpol",),
    strategy=Strategy(
        warn=warn,
        set_defaults=set_defaults,
        validate=validate,
        validate_name=dns_subdomain,
        has_generation=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Pod-Selector"),
            AGE,
        ),
        cells=cells,
    ),
)
