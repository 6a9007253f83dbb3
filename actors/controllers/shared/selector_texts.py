"""How Go prints a LabelSelector, as it stands in messages.

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
        f"LabelSelectorRequirement{{Key:{one.get('key', '')},Operator:{one.get('operator', '')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    expressions = f"[]LabelSelectorRequirement{{{others}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{equal}}},MatchExpressions:{expressions},}}"
