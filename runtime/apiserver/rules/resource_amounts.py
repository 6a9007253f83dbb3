"""Names and amounts of resources in ResourceQuotas and LimitRanges.

Source: kubernetes pkg/apis/core/validation/validation.go, pkg/apis/core/helper/helpers.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcm.protocols.quantities import milli_value, parse_quantity
from kcm.protocols.quota.names import LIMITS, REQUESTS, is_extended, is_huge_pages, is_native, is_quota_of_huge_pages
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.rules.names import label_key
from kcm.runtime.apiserver.rules.numbers import NOT_NEGATIVE

COMPUTE = frozenset({"cpu", "memory", "ephemeral-storage"})
COUNTED = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
OF_QUOTAS = COUNTED | COMPUTE | {part + name for part in (REQUESTS, LIMITS) for name in COMPUTE} | {"requests.storage"}
STANDARD = OF_QUOTAS | {"storage"}


def is_of_quotas(name: str) -> bool:
    """Report whether a name is a standard resource that quotas limit."""
    return name in OF_QUOTAS or is_quota_of_huge_pages(name)


def wrong_name(name: str, field: str) -> list[FieldError]:
    """Validate a resource name.

    Source: validateResourceName.
    """
    errors = [invalid(field, name, text) for text in label_key(name)]
    if not errors and "/" not in name and name not in STANDARD and not is_quota_of_huge_pages(name):
        errors.append(invalid(field, name, "must be a standard resource type or fully qualified"))
    return errors


def wrong_container_name(name: str, field: str) -> list[FieldError]:
    """Validate the name of a resource that containers consume.

    Source: validateContainerResourceName.
    """
    errors = wrong_name(name, field)
    if "/" not in name:
        if name not in COMPUTE and not is_huge_pages(name):
            errors.append(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return errors


def wrong_limits(amounts: Mapping[str, str], field: str) -> Iterator[FieldError]:
    """Validate the amounts in a quota's spec.hard, status.hard or status.used."""
    for name, amount in sorted(amounts.items()):
        at = f"{field}[{name}]"
        yield from wrong_name(name, at)
        if "/" not in name and not is_of_quotas(name):
            yield invalid(at, name, "must be a standard resource for quota")
        if parse_quantity(amount) < 0:
            yield invalid(at, amount, NOT_NEGATIVE)
        if (name in COUNTED or is_extended(name)) and milli_value(amount) % 1000:
            yield invalid(at, amount, "must be an integer")
