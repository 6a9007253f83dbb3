"""Defaults and validation of a Service's IP families.

Source: kubernetes pkg/registry/core/service/storage/alloc.go (initIPFamilyFields),
pkg/apis/core/validation/validation.go (ValidateServiceClusterIPsRelatedFields; v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.core.service.fields import (
    EXTERNAL_NAME,
    HEADLESS,
    PREFER_DUAL_STACK,
    REQUIRE_DUAL_STACK,
    SINGLE_STACK,
    Spec,
    is_headless,
)
from kcm.runtime.apiserver.rules.ip_addresses import IPV4, IPV6, family_of, validate_ip

FAMILIES = (IPV4, IPV6)
POLICIES = (PREFER_DUAL_STACK, REQUIRE_DUAL_STACK, SINGLE_STACK)
_POLICY = "spec.ipFamilyPolicy"


def keeps_preferred_families(now: Spec, then: Spec | None) -> bool:
    """Report whether an update leaves type, addresses and families of a PreferDualStack Service unchanged.

    Such a Service keeps its families even if the server now has other service CIDRs.
    """
    return (
        then is not None
        and now.get("ipFamilyPolicy") == PREFER_DUAL_STACK
        and then.get("ipFamilyPolicy") in (None, PREFER_DUAL_STACK)
        and now["type"] == then["type"] != EXTERNAL_NAME
        and same(now, then, "clusterIPs")
        and same(now, then, "ipFamilies")
    )


def same(now: Spec, then: Spec, field: str) -> bool:
    """Report whether a list field is equal in both specs. A missing list equals an empty one."""
    return (now.get(field) or []) == (then.get(field) or [])


def set_families(service: Object, then: Spec | None, families: Sequence[str]) -> None:
    """Set ipFamilyPolicy and ipFamilies.

    A Service that becomes single-stack loses its second cluster IP and family.

    then: the old spec; None for a new Service
    families: IP families of the server's service CIDRs, the default family first

    Raises StatusError (422) if the fields are invalid or a family is unavailable.
    """
    spec = service["spec"]
    if spec["type"] == EXTERNAL_NAME or keeps_preferred_families(spec, then):
        return
    # The endpoints of a headless Service without a selector may have any family.
    anywhere = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    if not spec.get("ipFamilyPolicy"):
        inherited = (then or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = inherited or (REQUIRE_DUAL_STACK if anywhere else SINGLE_STACK)
    _refuse(service, validate_cluster_ips(spec))
    errors = _adjusted_to_policy(spec, then)
    _refuse(service, errors + _inferred_families(spec, families))
    if not anywhere:
        _refuse(service, _unavailable_families(spec, families))
    if not spec.get("ipFamilies"):
        spec["ipFamilies"] = [families[0]]
    wants_both = spec["ipFamilyPolicy"] != SINGLE_STACK and (anywhere or len(families) == 2)
    if wants_both and len(spec["ipFamilies"]) == 1:
        spec["ipFamilies"] = [*spec["ipFamilies"], IPV6 if spec["ipFamilies"][0] == IPV4 else IPV4]


def _refuse(service: Object, errors: list[FieldError]) -> None:
    if errors:
        raise status_errors.invalid("", "Service", service["metadata"].get("name", ""), errors)


def _adjusted_to_policy(spec: Object, then: Spec | None) -> list[FieldError]:
    policy, errors = spec["ipFamilyPolicy"], []
    both = (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family"))
    if then is not None:
        for field, name in both:
            values = spec.get(field) or []
            if policy != SINGLE_STACK:
                if values and len(values) < len(then.get(field) or []):
                    errors.append(invalid(_POLICY, policy, f"must be 'SingleStack' to release the secondary {name}"))
            elif same(spec, then, field) and len(values) > 1:
                spec[field] = values[:1]
    if policy == SINGLE_STACK:
        for field, plural in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(field) or []) == 2:
                detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {plural} are specified"
                errors.append(invalid(_POLICY, policy, detail))
    return errors


def _inferred_families(spec: Object, families: Sequence[str]) -> list[FieldError]:
    """Add the families of the given cluster IPs to ipFamilies where missing."""
    errors = []
    addresses = spec.get("clusterIPs") or []
    for i, address in enumerate(addresses):
        if address == HEADLESS:
            break
        found = spec.get("ipFamilies") or []
        family = family_of(address)
        if i < len(found):
            continue
        if family in families:
            spec["ipFamilies"] = [*found, family]
        else:
            errors.append(invalid(f"spec.clusterIPs[{i}]", addresses, f"{family} is not configured on this cluster"))
    return errors


def _unavailable_families(spec: Spec, families: Sequence[str]) -> list[FieldError]:
    errors = []
    if spec["ipFamilyPolicy"] == REQUIRE_DUAL_STACK and len(families) < 2:
        detail = "this cluster is not configured for dual-stack services"
        errors.append(invalid(_POLICY, REQUIRE_DUAL_STACK, detail))
    return errors + [
        invalid(f"spec.ipFamilies[{i}]", family, "not configured on this cluster")
        for i, family in enumerate(spec.get("ipFamilies") or ())
        if family not in families
    ]


def validate_cluster_ips(spec: Mapping[str, Any]) -> list[FieldError]:
    """Validate clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy, and their consistency."""
    if spec.get("type") == EXTERNAL_NAME:
        return []
    address, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    errors: list[FieldError] = []
    if address and not addresses:
        errors.append(required("spec.clusterIPs"))
    elif address and addresses[0] != address:
        errors.append(invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`"))
    elif addresses and not address:
        errors.append(invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified"))
    families = spec.get("ipFamilies") or []
    seen: set[str] = set()
    for i, family in enumerate(families):
        if family not in FAMILIES:
            errors.append(not_supported(f"spec.ipFamilies[{i}]", family, FAMILIES))
        if family in seen:
            errors.append(duplicate(f"spec.ipFamilies[{i}]", family))
        seen.add(family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in POLICIES:
        errors.append(not_supported(_POLICY, policy, POLICIES))
    unreadable: list[FieldError] = []
    for i, address_text in enumerate(addresses):
        if i == 0 and address_text == HEADLESS:
            if len(addresses) > 1:
                unreadable.append(invalid("spec.clusterIPs", addresses, "'None' must be the first and only value"))
            continue
        unreadable += validate_ip(address_text, f"spec.clusterIPs[{i}]")
    errors += unreadable
    if len(addresses) > 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    return errors if unreadable else errors + _mismatches(spec, addresses, families)


def _mismatches(spec: Spec, addresses: list[str], families: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    versions = [family_of(text) for text in addresses]
    if len(addresses) > 1 and len(set(versions)) < 2:
        detail = "may specify no more than one IP for each IP family"
        errors.append(invalid("spec.clusterIPs", addresses, detail))
    if is_headless(spec):
        return errors
    for i, (version, family) in enumerate(zip(versions, families, strict=False)):
        if family in FAMILIES and version != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
            errors.append(invalid(f"spec.clusterIPs[{i}]", addresses[i], detail))
    return errors
