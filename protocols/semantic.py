"""Whether two objects, or two pod templates, mean the same, although their JSON differs.

Upstream compares decoded Go structs (apimachinery pkg/api/equality, Semantic.DeepEqual); we compare decoded JSON. What
a Go encoder leaves out, because the value is zero, counts as absent:

    absent == null == []        in every field
    absent == "" == 0 == false  not in fields that upstream holds by pointer, where zero is a choice: runAsUser: 0
    absent == {}                only in maps, and in fields that upstream holds by value: resources: {}; not where
                                presence says something of its own: emptyDir: {}, labelSelector: {}

In maps with keys of the user's choice (labels, annotations, …) an entry with the value "" is an entry. Quantities
compare by value, "1" == "1000m", and so do numbers; but no number equals a string or a boolean. The order of a list
counts. Fields are known by their name alone: the tables below are for pod templates, and the specs and statuses of
workloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocols.hashing import POD_TEMPLATE_HASH_LABEL
from protocols.objects import Object
from protocols.quantities import parse_quantity

_USER_KEYED = frozenset(
    {
        "annotations",
        "binaryData",
        "data",
        "labels",
        "matchLabels",
        "nodeSelector",
        "options",
        "stringData",
        "userAnnotations",
        "volumeAttributes",
    }
)
_QUANTITY_MAPS = frozenset(
    {
        "allocatable",
        "allocatedResources",
        "capacity",
        "default",
        "defaultRequest",
        "hard",
        "limits",
        "max",
        "min",
        "overhead",
        "requests",
        "used",
    }
)
_QUANTITIES = frozenset({"divisor", "sizeLimit"})
_HELD_BY_VALUE = frozenset(
    {
        "metadata",
        "podAffinityTerm",
        "preference",
        "resources",
        "spec",
        "status",
        "strategy",
        "template",
        "updateStrategy",
    }
)
_EMPTY_MAP_IS_ABSENT = _USER_KEYED | _QUANTITY_MAPS | _HELD_BY_VALUE

_BOOLEAN_CHOICES = frozenset(
    {
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
        "enableServiceLinks",
        "hostProcess",
        "hostUsers",
        "manualSelector",
        "optional",
        "privileged",
        "readOnlyRootFilesystem",
        "runAsNonRoot",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "suspend",
    }
)
# Without "replicas": it is held by pointer in specs, where it is always defaulted, and by value in statuses.
_NUMBER_CHOICES = frozenset(
    {
        "activeDeadlineSeconds",
        "backoffLimit",
        "backoffLimitPerIndex",
        "collisionCount",
        "completions",
        "defaultMode",
        "expirationSeconds",
        "fsGroup",
        "maxExpirationSeconds",
        "maxFailedIndexes",
        "minDomains",
        "mode",
        "parallelism",
        "priority",
        "progressDeadlineSeconds",
        "revisionHistoryLimit",
        "runAsGroup",
        "runAsUser",
        "terminatingReplicas",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
        "ttlSecondsAfterFinished",
    }
)
# "" is no class at all; without the field it is the default class.
_STRING_CHOICES = frozenset({"storageClassName", "volumeAttributesClassName"})
_ZERO_IS_A_CHOICE = _BOOLEAN_CHOICES | _NUMBER_CHOICES | _STRING_CHOICES


def semantically_equal(a: Any, b: Any) -> bool:
    """Whether two decoded values mean the same. At the top, None equals an empty map or list.

    For a map of labels or annotations by itself use ==: only within an object is it known to be one.
    """
    return _equal(a, b, "spec")  # compared as the value of a field whose empty map is absent


def equal_ignoring_hash(template: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two pod templates are the same but for the hash that a Deployment adds. Upstream's EqualIgnoreHash."""
    return semantically_equal(without_hash_label(template), without_hash_label(other))


def without_hash_label(template: Mapping[str, Any]) -> Object:
    """The template without the label pod-template-hash; what it was given is left alone."""
    metadata = template.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if POD_TEMPLATE_HASH_LABEL not in labels:
        return dict(template)
    rest = {key: value for key, value in labels.items() if key != POD_TEMPLATE_HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": rest}}


def _equal(a: Any, b: Any, name: str) -> bool:
    """name: of the field that holds them; of a list's elements, the list's."""
    if a is b:
        return True
    if name in _QUANTITIES:
        return _same_quantity(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return _equal_maps(a, b, name)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_equal(each, other, "") for each, other in zip(a, b, strict=True))
    if a is None or b is None:
        return _is_absent(a if b is None else b, name)
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    return bool(a == b)


def _equal_maps(a: Mapping[str, Any], b: Mapping[str, Any], name: str) -> bool:
    if name in _USER_KEYED:
        return a == b
    if name in _QUANTITY_MAPS:
        return a.keys() == b.keys() and all(_same_quantity(value, b[key]) for key, value in a.items())
    return all(_equal(a.get(key), b.get(key), key) for key in a.keys() | b.keys())


def _is_absent(value: Any, name: str) -> bool:
    """Whether this value of this field means no more than its absence."""
    if isinstance(value, dict):
        return name in _EMPTY_MAP_IS_ABSENT and not any(
            name in _USER_KEYED or name in _QUANTITY_MAPS or not _is_absent(each, key) for key, each in value.items()
        )
    if isinstance(value, list):
        return not value
    return value is None or (not value and name not in _ZERO_IS_A_CHOICE)


def _same_quantity(a: Any, b: Any) -> bool:
    """By value; none is 0, and what is no quantity is equal to itself only."""
    try:
        return parse_quantity(a or 0) == parse_quantity(b or 0)
    except ValueError:
        return bool(a == b)
