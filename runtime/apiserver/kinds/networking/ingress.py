"""Ingresses (networking.k8s.io/v1): validation and table columns.

Source: kubernetes pkg/registry/networking/ingress/strategy.go, pkg/printers/internalversion/printers.go
(printIngress) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object, annotations_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.pod_spec.handlers import port_name_problems
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, age_cell, items, load_balancer_addresses, name_cell, part
from kcm.runtime.apiserver.rules.ip_addresses import family_of, validate_ip
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain, path_segment, wildcard_subdomain
from kcm.runtime.apiserver.rules.numbers import port_problems

_SHOWN = 3  # number of hosts in the table


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_NOT_IN_PATHS, _NOT_AT_THE_END = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")

Part = Mapping[str, Any]


def validate(ingress: Object) -> list[FieldError]:
    return list(_wrong_spec(ingress["spec"]))


def validate_create(ingress: Object) -> list[FieldError]:
    annotation, name = annotations_of(ingress).get(_CLASS_ANNOTATION), ingress["spec"].get("ingressClassName")
    if annotation is None or name is None or annotation == name:
        return []
    detail = "must match `ingressClassName` when both are specified"
    return [invalid(f"annotations.{_CLASS_ANNOTATION}", annotation, detail)]


def _wrong_spec(spec: Part) -> Iterator[FieldError]:
    rules, backend = items(spec, "rules"), spec.get("defaultBackend")
    if not rules and backend is None:
        yield invalid("spec", None, "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _wrong_backend(backend, "spec.defaultBackend")
    for i, rule in enumerate(rules):
        if rule.get("host"):
            yield from _wrong_host(rule["host"], f"spec.rules[{i}].host")
        if rule.get("http") is not None:
            yield from _wrong_paths(items(rule["http"], "paths"), f"spec.rules[{i}].http.paths")
    for i, tls in enumerate(items(spec, "tls")):
        for j, host in enumerate(items(tls, "hosts")):
            problems = wildcard_subdomain(host) if "*" in host else dns_subdomain(host)
            for text in problems:
                yield invalid(f"spec.tls[{i}].hosts[{j}]", host, text)
        if tls.get("secretName"):
            for text in dns_subdomain(tls["secretName"]):
                yield invalid(f"spec.tls[{i}].secretName", tls["secretName"], text)
    name = spec.get("ingressClassName")
    if name is not None:
        for text in dns_subdomain(name):
            yield invalid("spec.ingressClassName", name, text)


def _wrong_host(host: str, field: str) -> Iterator[FieldError]:
    if family_of(host) != "unknown":
        yield invalid(field, host, "must be a DNS name, not an IP address")
        return
    for text in wildcard_subdomain(host) if "*" in host else dns_subdomain(host):
        yield invalid(field, host, text)


def _wrong_paths(paths: Sequence[Part], field: str) -> Iterator[FieldError]:
    if not paths:
        yield required(field)
    for i, entry in enumerate(paths):
        type_, path, at = entry.get("pathType"), entry.get("path") or "", f"{field}[{i}]"
        if type_ is None:
            yield required(f"{at}.pathType", "pathType must be specified")
        elif type_ in ("Exact", "Prefix"):
            if not path.startswith("/"):
                yield invalid(f"{at}.path", path, "must be an absolute path")
            if path:
                for word in _NOT_IN_PATHS:
                    if word in path:
                        yield invalid(f"{at}.path", path, f"must not contain '{word}'")
                for word in _NOT_AT_THE_END:
                    if path.endswith(word):
                        yield invalid(f"{at}.path", path, f"cannot end with '{word}'")
        elif type_ == "ImplementationSpecific":
            if path and not path.startswith("/"):
                yield invalid(f"{at}.path", path, "must be an absolute path")
        else:
            yield not_supported(f"{at}.pathType", type_, _PATH_TYPES)
        yield from _wrong_backend(entry.get("backend") or {}, f"{at}.backend")


def _wrong_backend(backend: Part, field: str) -> Iterator[FieldError]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield invalid(field, "", "cannot set both resource and service backends")
    elif resource is not None:
        for name in ("kind", "name"):
            if not resource.get(name):
                yield required(f"{field}.resource.{name}")
            else:
                for text in path_segment(resource[name]):
                    yield invalid(f"{field}.resource.{name}", resource[name], text)
    elif service is None:
        yield invalid(field, "", "resource or service backend is required")
    else:
        name = service.get("name") or ""
        if not name:
            yield required(f"{field}.service.name")
        for text in dns_label(name) if name else ():
            yield invalid(f"{field}.service.name", name, text)
        yield from _wrong_port(service.get("port") or {}, field)


def _wrong_port(port: Part, field: str) -> Iterator[FieldError]:
    name, number = port.get("name") or "", port.get("number") or 0
    if name and number:
        yield invalid(field, "", "cannot set both port name & port number")
    elif name:
        for text in port_name_problems(name):
            yield invalid(f"{field}.service.port.name", name, text)
    elif number:
        for text in port_problems(number):
            yield invalid(f"{field}.service.port.number", number, text)
    else:
        yield required(field, "port name or number is required")


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for i, entry in enumerate(items(part(new, "status", "loadBalancer"), "ingress")):
        at, host = f"status.loadBalancer.ingress[{i}]", entry.get("hostname")
        if entry.get("ip"):
            errors += validate_ip(entry["ip"], f"{at}.ip")
        if host:
            errors += [invalid(f"{at}.hostname", host, text) for text in dns_subdomain(host)]
            if family_of(host) != "unknown":
                errors.append(invalid(f"{at}.hostname", host, "must be a DNS name, not an IP address"))
    return errors


def warn(ingress: Object, old: Object | None) -> Iterator[str]:
    if old is None and _CLASS_ANNOTATION in annotations_of(ingress) and "ingressClassName" not in ingress["spec"]:
        yield f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"


def cells(ingress: Object, now: float) -> list[Any]:
    spec = part(ingress, "spec")
    return [
        name_cell(ingress),
        spec.get("ingressClassName") or NONE,
        _hosts(spec),
        ",".join(load_balancer_addresses(ingress)),
        "80, 443" if items(spec, "tls") else "80",
        age_cell(ingress, now),
    ]


def _hosts(spec: Mapping[str, Any]) -> str:
    rules = items(spec, "rules")
    hosts: list[str] = []
    for rule in rules:
        if len(hosts) == _SHOWN:
            # As upstream, counts all rules, even those without a host.
            return f"{','.join(hosts)} + {len(rules) - _SHOWN} more..."
        if rule.get("host"):
            hosts.append(rule["host"])
    return ",".join(hosts) or "*"


RESOURCE = ResourceDefinition(
    group="networking.k8s.io",
    version="v1",
    plural="ingresses",
    kind="Ingress",
    short_names=("ing",),
    subresources=("status",),
    strategy=Strategy(
        warn=warn,
        validate=validate,
        validate_create=validate_create,
        empty_status={"loadBalancer": {}},
        validate_status_update=validate_status_update,
        validate_name=dns_subdomain,
        has_generation=True,
        has_status=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Class"),
            Column("Hosts"),
            Column("Address"),
            Column("Ports"),
            AGE,
        ),
        cells=cells,
    ),
)
