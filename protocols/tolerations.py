"""Which taints a pod tolerates.

A taint is an element of a Node's spec.taints, a toleration an element of a Pod's spec.tolerations.
Source: kubernetes v1.36 staging/src/k8s.io/component-helpers/scheduling/corev1 and api/core/v1/toleration.go. The
operators Lt and Gt, which upstream disables by default, tolerate nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """True if the toleration matches the taint. How long it tolerates it is its tolerationSeconds."""
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
        case _:
            return False


def find_toleration(
    tolerations: Iterable[Mapping[str, Any]] | None, taint: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The first toleration that matches the taint, or None."""
    for toleration in tolerations or ():
        if tolerates(toleration, taint):
            return toleration
    return None
