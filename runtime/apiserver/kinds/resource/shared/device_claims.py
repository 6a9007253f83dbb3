"""Defaults and validation of device requests and configurations in ResourceClaims, their templates and DeviceClasses.

Source: kubernetes pkg/apis/resource/v1/defaults.go, pkg/apis/resource/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from kcm.runtime.apiserver.kinds.pod_spec.persistent_volume_sources import wrong_driver_name
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain, label_key, label_value

MOST_REQUESTS, MOST_CONSTRAINTS, MOST_CONFIGS, MOST_SELECTORS, MOST_ALTERNATIVES = 32, 32, 32, 32, 8
LONGEST_POOL = 253
_LONGEST_EXPRESSION, _LONGEST_PARAMETERS = 10 * 1024, 10 * 1024
_LONGEST_DOMAIN, _LONGEST_ID = 63, 32
_MODES, _EFFECTS, _OPERATORS = ("All", "ExactCount"), ("NoExecute", "NoSchedule", "None"), ("Equal", "Exists")
_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

Part = Mapping[str, Any]
Requests = Mapping[str, frozenset[str]]


def set_claim_defaults(spec: Object) -> None:
    devices = spec.setdefault("devices", {})
    for request in devices.setdefault("requests", None) or ():
        for demand in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if demand is None:
                continue
            for toleration in demand.get("tolerations") or ():
                toleration["operator"] = toleration.get("operator") or "Equal"
            if not demand.get("allocationMode"):
                demand["allocationMode"] = "ExactCount"
            if demand["allocationMode"] == "ExactCount" and not demand.get("count"):
                demand["count"] = 1
    if not devices["requests"] and len(devices) > 1:
        devices.pop("requests")


def requests_of(devices: Part) -> Requests:
    """Return the names of all requests, each with the names of its subrequests (firstAvailable)."""
    return {
        request.get("name") or "": frozenset(
            alternative.get("name") or "" for alternative in request.get("firstAvailable") or ()
        )
        for request in devices.get("requests") or ()
    }


def wrong_claim(spec: Part, field: str) -> Iterator[FieldError]:
    devices, at = spec.get("devices") or {}, f"{field}.devices"
    names = requests_of(devices)
    requests = devices.get("requests") or ()
    yield from _checked_items(requests, f"{at}.requests", MOST_REQUESTS, _wrong_request)
    yield from _duplicate_names(requests, f"{at}.requests")
    constraints = devices.get("constraints") or ()
    yield from _checked_items(
        constraints,
        f"{at}.constraints",
        MOST_CONSTRAINTS,
        lambda constraint, path: _wrong_constraint(constraint, path, names),
    )
    for i, config in enumerate(devices.get("config") or ()):
        yield from wrong_references(config.get("requests") or (), f"{at}.config[{i}].requests", names)
    yield from wrong_configurations(devices.get("config") or (), f"{at}.config")


def _checked_items(
    listed: Sequence[Part], field: str, most: int, check: Callable[[Part, str], Iterable[FieldError]]
) -> Iterator[FieldError]:
    """Yield the errors of `check` for the first `most` items, and one more error if the list is longer."""
    if len(listed) > most:
        yield too_many(field, len(listed), most)
    for i, item in enumerate(listed[:most]):
        yield from check(item, f"{field}[{i}]")


def _duplicate_names(named: Sequence[Part], field: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, item in enumerate(named):
        name = item.get("name") or ""
        if name in seen:
            yield duplicate(f"{field}[{i}]", name)
        seen.add(name)


def _wrong_request(request: Part, field: str) -> Iterator[FieldError]:
    name, exactly, first = request.get("name") or "", request.get("exactly"), request.get("firstAvailable") or ()
    yield from (invalid(f"{field}.name", name, text) for text in dns_label(name))
    one_of = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not first:
        yield required(field, one_of)
    elif exactly is not None and first:
        yield invalid(field, None, f"{one_of}, but multiple fields are set")
    elif exactly is not None:
        yield from _wrong_demand(exactly, f"{field}.exactly")
    else:
        at = f"{field}.firstAvailable"
        for i, alternative in enumerate(first):
            inner = alternative.get("name") or ""
            yield from (invalid(f"{at}[{i}].name", inner, text) for text in dns_label(inner))
        yield from _checked_items(first, at, MOST_ALTERNATIVES, _wrong_demand)
        yield from _duplicate_names(first, at)


def _wrong_demand(demand: Part, field: str) -> Iterator[FieldError]:
    class_, mode, count = demand.get("deviceClassName") or "", demand["allocationMode"], demand.get("count") or 0
    if not class_:
        yield required(f"{field}.deviceClassName")
    else:
        yield from (invalid(f"{field}.deviceClassName", class_, text) for text in dns_subdomain(class_))
    yield from wrong_selectors(demand.get("selectors") or (), f"{field}.selectors")
    if mode not in _MODES:
        yield not_supported(f"{field}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        yield invalid(f"{field}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield invalid(f"{field}.count", count, "must be greater than zero")
    for i, toleration in enumerate(demand.get("tolerations") or ()):
        yield from _wrong_toleration(toleration, f"{field}.tolerations[{i}]")


def _wrong_toleration(toleration: Part, field: str) -> Iterator[FieldError]:
    key, operator, effect = (toleration.get(name) or "" for name in ("key", "operator", "effect"))
    if key:
        yield from (invalid(f"{field}.key", key, text) for text in label_key(key))
    if operator == "Exists" and toleration.get("value"):
        yield invalid(f"{field}.value", toleration["value"], "must be empty for operator `Exists`")
    elif operator == "Equal":
        value = toleration.get("value") or ""
        yield from (invalid(f"{field}.value", value, text) for text in label_value(value))
    elif operator not in _OPERATORS:
        yield not_supported(f"{field}.operator", operator, _OPERATORS)
    if effect and effect not in _EFFECTS:
        yield not_supported(f"{field}.effect", effect, _EFFECTS)


def wrong_selectors(selectors: Sequence[Part], field: str) -> Iterator[FieldError]:
    yield from _checked_items(selectors, field, MOST_SELECTORS, _wrong_selector)


def _wrong_selector(selector: Part, field: str) -> Iterator[FieldError]:
    if selector.get("cel") is None:
        yield required(f"{field}.cel")
        return
    text, at = selector["cel"].get("expression") or "", f"{field}.cel.expression"
    if len(text.encode()) > _LONGEST_EXPRESSION:
        yield too_long(at, _LONGEST_EXPRESSION)
        return
    from kcm.runtime.cel.devices import expression_problem

    if (problem := expression_problem(text)) is not None:
        yield invalid(at, text, problem)


def _wrong_constraint(constraint: Part, field: str, names: Requests) -> Iterator[FieldError]:
    yield from wrong_references(constraint.get("requests") or (), f"{field}.requests", names)
    for name in ("matchAttribute", "distinctAttribute"):
        if constraint.get(name) is not None:
            yield from _wrong_attribute(constraint[name], f"{field}.{name}")
            return
    detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    yield required(field, detail)


def _wrong_attribute(name: str, field: str) -> Iterator[FieldError]:
    if not name:
        yield required(field)
    elif "/" not in name:
        yield invalid(field, name, "a fully qualified name must be a domain and a name separated by a slash")
    else:
        yield from wrong_qualified_name(name, field)


def wrong_qualified_name(name: str, field: str) -> Iterator[FieldError]:
    """Validate the name of an attribute or capacity. Upstream accepts any name with more than one slash."""
    parts = name.split("/")
    if len(parts) == 1:
        yield from wrong_identifier(name, field)
    elif len(parts) == 2:
        for part, what, check in ((parts[0], "domain", _wrong_domain), (parts[1], "name", wrong_identifier)):
            if part:
                yield from check(part, field)
            else:
                yield invalid(field, "", f"the {what} must not be empty")


def _wrong_domain(domain: str, field: str) -> Iterator[FieldError]:
    if len(domain) > _LONGEST_DOMAIN:
        yield too_long(field, _LONGEST_DOMAIN)
    yield from (invalid(field, domain, text) for text in dns_subdomain(domain))


def wrong_identifier(name: str, field: str) -> Iterator[FieldError]:
    """Validate that a name is a C identifier of at most 32 characters."""
    if len(name) > _LONGEST_ID:
        yield too_long(field, _LONGEST_ID)
    if not (name.isascii() and name.isidentifier()):
        rule = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
        examples = (
            "(e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
        )
        yield invalid(field, name, f"{rule}characters or '_' {examples}")


def wrong_references(references: Sequence[str], field: str, names: Requests) -> Iterator[FieldError]:
    """Validate references to requests of a claim: REQUEST or REQUEST/SUBREQUEST.

    names: requests of the claim, from requests_of
    """
    if len(references) > MOST_REQUESTS:
        yield too_many(field, len(references), MOST_REQUESTS)
    seen: set[str] = set()
    for i, reference in enumerate(references):
        yield from wrong_reference(reference, f"{field}[{i}]", names)
        if reference in seen:
            yield duplicate(f"{field}[{i}]", reference)
        seen.add(reference)


def wrong_reference(reference: str, field: str, names: Requests) -> Iterator[FieldError]:
    """Validate a reference to a request of a claim: REQUEST or REQUEST/SUBREQUEST.

    names: requests of the claim, from requests_of
    """
    parts = reference.split("/")
    if len(parts) > 2:
        yield invalid(field, reference, _UNKNOWN_REQUEST)
        return
    for part in parts:
        yield from (invalid(field, part, text) for text in dns_label(part))
    if parts[0] not in names or (len(parts) == 2 and parts[1] not in names[parts[0]]):
        yield invalid(field, reference, _UNKNOWN_REQUEST)


def wrong_configurations(configs: Sequence[Part], field: str) -> Iterator[FieldError]:
    yield from _checked_items(configs, field, MOST_CONFIGS, wrong_configuration)


def wrong_configuration(config: Part, field: str) -> Iterator[FieldError]:
    opaque, at = config.get("opaque"), f"{field}.opaque"
    if opaque is None:
        yield required(at)
        return
    yield from wrong_driver_name(opaque.get("driver") or "", f"{at}.driver")
    parameters = opaque.get("parameters")
    yield from (
        wrong_object(parameters, f"{at}.parameters") if parameters is not None else [required(f"{at}.parameters")]
    )


def wrong_object(given: Part, field: str) -> Iterator[FieldError]:
    """Validate the size of an object that a driver interprets. It is that of compact JSON."""
    if len(orjson.dumps(given)) > _LONGEST_PARAMETERS:
        yield too_long(field, _LONGEST_PARAMETERS)


def wrong_pool(name: str, field: str) -> Iterator[FieldError]:
    if not name:
        yield required(field)
        return
    if len(name) > LONGEST_POOL:
        yield too_long(field, LONGEST_POOL)
    for part in name.split("/"):
        yield from (invalid(field, part, text) for text in dns_subdomain(part))
