"""Taints and tolerations.

A taint is an element of a Node's spec.taints, a toleration an element of a Pod's spec.tolerations.
Source: kubernetes v1.36 staging/src/k8s.io/component-helpers/scheduling/corev1 and api/core/v1/toleration.go. The
operators Lt and Gt, which upstream disables by default, tolerate nothing unless `comparing` is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

DECIMAL = re.compile(r"0|-?[1-9][0-9]*|-0")
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1  # of int64


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any], *, comparing: bool = False) -> bool:
    """Report whether the toleration matches the taint, regardless of tolerationSeconds.

    comparing: whether the operators Lt and Gt are supported.
    """
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")
        case "Lt" | "Gt" as operator if comparing:
            limit, value = _number(toleration.get("value")), _number(taint.get("value"))
            if limit is None or value is None:
                return False
            return value < limit if operator == "Lt" else value > limit
        case _:
            return False


def _number(text: object) -> int | None:
    """Parse a decimal int64 without leading zeros; return None for other text."""
    if not isinstance(text, str) or not DECIMAL.fullmatch(text) or len(text) > len(str(SMALLEST)):
        return None
    number = int(text)
    return number if SMALLEST <= number <= LARGEST else None


def find_toleration(
    tolerations: Iterable[Mapping[str, Any]] | None, taint: Mapping[str, Any], *, comparing: bool = False
) -> Mapping[str, Any] | None:
    """Return the first toleration that matches the taint, or None."""
    for toleration in tolerations or ():
        if tolerates(toleration, taint, comparing=comparing):
            return toleration
    return None
