"""Taints of devices, in ResourceSlices and DeviceTaintRules: default of timeAdded, and validation.

Source: kubernetes pkg/apis/resource/v1/defaults.go (SetDefaults_DeviceTaint),
pkg/apis/resource/validation/validation.go (validateDeviceTaint) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, required
from kcm.runtime.apiserver.rules.names import label_key, label_value

EFFECTS = ("NoExecute", "NoSchedule", "None")


def set_time_added(taint: Object, now: str) -> None:
    """Set a missing timeAdded to the time of the request."""
    if taint.get("timeAdded") is None:
        taint["timeAdded"] = now


def wrong_taint(taint: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
    yield from (invalid(f"{field}.key", key, text) for text in label_key(key))
    yield from (invalid(f"{field}.value", value, text) for text in label_value(value))
    if not effect:
        yield required(f"{field}.effect")
    elif effect not in EFFECTS:
        yield not_supported(f"{field}.effect", effect, EFFECTS)
