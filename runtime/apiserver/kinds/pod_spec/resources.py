"""Defaults and validation of the resources of containers and pods, including huge pages and resource claims.

Source: kubernetes pkg/apis/core/validation/validation.go (validateResourceRequirements, validatePodResources,
validatePodResourceClaims), pkg/apis/core/v1/defaults.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.pod_resources import is_of_pods, pod_limits, pod_requests
from kcm.protocols.quantities import milli_value, parse_quantity
from kcm.protocols.quota.amounts import Amounts
from kcm.protocols.quota.names import HUGE_PAGES, is_extended, is_huge_pages
from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain
from kcm.runtime.apiserver.rules.numbers import NOT_NEGATIVE
from kcm.runtime.apiserver.rules.resource_amounts import wrong_container_name, wrong_name
from kcm.runtime.apiserver.schema.inner_forms import inner_form

_PLAIN = ("cpu", "memory")  # the most frequent resources, which need no check of their names
_POD_LEVEL = ("cpu", "hugepages-", "memory")

Part = Mapping[str, Any]


def default_pod_resources(spec: Object) -> None:
    """Set the defaults of pod-level resources (spec.resources).

    Limits of huge pages default to the sum over the containers. Requests default to the sum over the containers, or
    else to the pod-level limits.
    """
    pod_resources = spec.get("resources")
    if not pod_resources or not (pod_resources.get("limits") or pod_resources.get("requests")):
        return
    limits, requests = dict(pod_resources.get("limits") or {}), dict(pod_resources.get("requests") or {})
    for name, amount in _sum_of_containers(pod_limits, spec).items():
        if is_huge_pages(name) and name not in requests:
            limits.setdefault(name, str(amount))
    if limits:
        pod_resources["limits"] = limits
        for name, amount in _sum_of_containers(pod_requests, spec).items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, str(amount))
        for name, limit in limits.items():
            if is_of_pods(name):
                requests.setdefault(name, limit)
    if requests:
        pod_resources["requests"] = requests


def _sum_of_containers(of: Callable[..., Amounts], spec: Object) -> Amounts:
    """Return the limits or requests of a pod without its pod-level resources and overhead.

    of: pod_limits or pod_requests, which add up the containers
    """
    containers = {name: spec[name] for name in ("containers", "initContainers") if name in spec}
    return of({"spec": containers}, use_status=False, overhead=False)


def wrong_resources(
    resources: Part,
    field: str,
    claims: Collection[str],
    name_problems: Callable[[str, str], list[FieldError]] = wrong_container_name,
) -> Iterator[FieldError]:
    """Validate limits, requests and claims of a container or pod, except the syntax of quantities (see the schema).

    claims: names in spec.resourceClaims of the pod
    name_problems: validates a resource name; called with (name, field)
    """
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if name in _PLAIN:
                if amount[0] == "-" and parse_quantity(amount) < 0:
                    yield invalid(f"{field}.{part}[{name}]", amount, NOT_NEGATIVE)
                continue
            at = f"{field}.{part}[{name}]"
            yield from name_problems(name, at)
            if parse_quantity(amount) < 0:
                yield invalid(at, amount, NOT_NEGATIVE)
            if "/" in name and is_extended(name) and milli_value(amount) % 1000:
                yield invalid(at, amount, "must be an integer")
            if is_huge_pages(name) and not _is_divisible(name, amount):
                yield invalid(at, amount, f"{amount} is not positive integer multiple of {name}")
    for name, amount in requests.items():
        if name not in _PLAIN and not _may_be_overcommitted(name) and limits.get(name) != amount:
            yield _overcommit_error(name, amount, limits.get(name), field)
        elif name in limits and amount != limits[name] and parse_quantity(amount) > parse_quantity(limits[name]):
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield invalid(f"{field}.requests", amount, detail)
    named = requests.keys() | limits.keys()
    if named.isdisjoint(("cpu", "memory")) and any(map(is_huge_pages, named)):
        yield forbidden(field, "HugePages require cpu or memory")
    if resources.get("claims"):
        yield from _wrong_references(resources["claims"], f"{field}.claims", claims)


def _may_be_overcommitted(name: str) -> bool:
    return ("/" not in name or name.startswith("kubernetes.io/")) and not is_huge_pages(name)


def _overcommit_error(name: str, amount: str, limit: str | None, field: str) -> FieldError:
    """Return the error for a resource whose limit must be set and equal its request."""
    if limit is None:
        return required(f"{field}.limits", "Limit must be set for non overcommitable resources")
    return invalid(f"{field}.requests", amount, f"must be equal to {name} limit of {limit}")


def _is_divisible(name: str, amount: str) -> bool:
    try:
        size = parse_quantity(name.removeprefix(HUGE_PAGES))
    except ValueError:
        return False
    return size > 0 and size % 1 == 0 and parse_quantity(amount) % size == 0


def _wrong_references(references: Sequence[Part], field: str, claims: Collection[str]) -> Iterator[FieldError]:
    """Validate a container's references to resource claims of the pod, or to single requests in a claim.

    claims: names in spec.resourceClaims of the pod
    """
    seen: set[str] = set()
    requests = Counter[str]()  # number of references to single requests so far, by claim name
    which = ""
    for i, reference in enumerate(references):
        name, request, at = reference.get("name") or "", reference.get("request") or "", f"{field}[{i}]"
        if not name:
            yield required(at)
            continue
        if name in seen:
            yield duplicate(at, name)
        else:
            key = f"{name}/{request}" if request else name
            if request:
                yield from (invalid(f"{at}.request", request, text) for text in dns_label(request))
            if key in seen:
                yield duplicate(at, key)
            elif not request:
                yield from (duplicate(at, name) for _ in range(requests[name]))
            if request and key not in seen:
                requests[name] += 1
            seen.add(key)
        if name not in claims:
            which = which or (f": {', '.join(sorted(claims))}" if claims else " which is empty")
            detail = f"must be one of the names in pod.spec.resourceClaims{which}"
            yield FieldError("FieldValueNotFound", at, name, detail)


def wrong_pod_resources(spec: Part, field: str, claims: Collection[str]) -> Iterator[FieldError]:
    """Validate pod-level resources, which must be at least the sum over the containers.

    claims: names in spec.resourceClaims of the pod
    """
    pod_resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        yield forbidden(field, "may not be set for a windows pod")
        return
    if pod_resources.get("claims") is not None:
        yield forbidden(f"{field}.claims", "claims may not be set for Resources at pod-level")
    yield from wrong_resources(pod_resources, field, claims, _wrong_pod_name)
    requests, limits = pod_resources.get("requests") or {}, pod_resources.get("limits") or {}
    for name, amount in _sum_of_containers(pod_requests, dict(spec)).items():
        if name in requests and amount.value > parse_quantity(requests[name]):
            detail = f"must be greater than or equal to aggregate container requests of {amount}"
            yield invalid(f"{field}.requests[{name}]", requests[name], detail)
    for name, amount in _sum_of_containers(pod_limits, dict(spec)).items():
        if is_huge_pages(name) and name in limits and amount.value > parse_quantity(limits[name]):
            detail = f"must be greater than or equal to aggregate container limits of {amount}"
            yield invalid(f"{field}.limits[{name}]", limits[name], detail)
    for i, container in enumerate(spec.get("containers") or ()):
        for name, limit in (container["resources"].get("limits") or {}).items():
            if name in limits and parse_quantity(limit) > parse_quantity(limits[name]):
                at = f"{field}.containers[{i}][{name}].limits"
                yield invalid(at, limit, f"must be less than or equal to pod limits of {limits[name]}")


def _wrong_pod_name(name: str, field: str) -> list[FieldError]:
    errors = wrong_name(name, field)
    if not errors and not is_of_pods(name):
        errors.append(not_supported(field, name, _POD_LEVEL))
    return errors


def wrong_resource_claims(claims: Sequence[Part], field: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        name, at = claim.get("name") or "", f"{field}[{i}]"
        if not name:
            yield required(f"{at}.name")
        elif name in seen:
            yield duplicate(f"{at}.name", name)
        else:
            yield from (invalid(f"{at}.name", name, text) for text in dns_label(name))
        seen.add(name)
        given = [
            source for source in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(source) is not None
        ]
        if len(given) != 1:
            detail = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
                if given
                else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )
            yield invalid(at, inner_form(claim, "core.PodResourceClaim"), detail)
        for source in given:
            yield from (invalid(f"{at}.{source}", claim[source], text) for text in dns_subdomain(claim[source]))


def wrong_overhead(overhead: Part, field: str) -> Iterator[FieldError]:
    yield from wrong_resources({"limits": overhead}, field, ())
