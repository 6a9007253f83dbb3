"""Formatting of LabelSelectors as by Go's String method, for messages that must equal upstream's.

Source: apimachinery pkg/apis/meta/v1/generated.pb.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selector_in_go(selector: Mapping[str, Any] | None) -> str:
    if selector is None:
        return "nil"
    labels = selector.get("matchLabels") or {}
    equal = "".join(f"{label}: {labels[label]}," for label in sorted(labels))
    others = "".join(
        f"LabelSelectorRequirement{{Key:{requirement.get('key', '')},Operator:{requirement.get('operator', '')},"
        f"Values:[{' '.join(requirement.get('values') or ())}],}},"
        for requirement in selector.get("matchExpressions") or ()
    )
    expressions = f"[]LabelSelectorRequirement{{{others}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{equal}}},MatchExpressions:{expressions},}}"
