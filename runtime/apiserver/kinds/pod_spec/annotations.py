"""Validation of pod annotations: mirror pods, deletion cost and AppArmor profiles.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidatePodSpecificAnnotations,
validateAppArmorAnnotationsAndFieldsMatchOnCreate (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, quoted
from kcm.runtime.apiserver.kinds.pod_spec.preparation import APPARMOR

MIRROR = "kubernetes.io/config.mirror"  # annotation of the mirror pod of a static pod
_COST = "controller.kubernetes.io/pod-deletion-cost"
_LOCALHOST = "localhost/"
_cost = re.compile("-?[1-9][0-9]*|0")

Part = Mapping[str, Any]


def wrong_annotations(annotations: Mapping[str, str], spec: Object, field: str) -> Iterator[FieldError]:
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{field}[{MIRROR}]", annotations[MIRROR], detail)
    cost = annotations.get(_COST)
    if cost is not None and not (_cost.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        yield invalid(f"{field}[{_COST}]", cost, "must be a 32bit integer")
    for key, profile in annotations.items():
        if not key.startswith(APPARMOR):
            continue
        name = key.removeprefix(APPARMOR)
        if not any(name == container.get("name") for _, container in _containers(spec)):
            yield invalid(f"{field}[{key}]", name, "container not found")
        if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCALHOST):
            yield invalid(f"{field}[{key}]", profile, f"invalid AppArmor profile name: {quoted(profile)}")


def wrong_apparmor_profiles(pod: Object) -> Iterator[FieldError]:
    """Yield errors for a new pod whose AppArmor annotations contradict its appArmorProfile fields."""
    annotations, spec = pod["metadata"].get("annotations"), pod["spec"]
    if not annotations or (spec.get("os") or {}).get("name") == "windows":
        return
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    for at, container in _containers(spec):
        profile = (container.get("securityContext") or {}).get("appArmorProfile") or of_pod
        annotation = annotations.get(APPARMOR + (container.get("name") or ""))
        if profile is None or annotation is None:
            continue
        field, type_ = f"spec.{at}.securityContext.appArmorProfile", profile.get("type")
        named = {"Unconfined": "unconfined", "RuntimeDefault": "runtime/default"}
        mismatch = type_ in named and annotation != named[type_]
        if mismatch or (type_ == "Localhost" and not annotation.startswith(_LOCALHOST)):
            yield forbidden(f"{field}.type", "apparmor type in annotation and field must match")
        elif type_ == "Localhost" and annotation != _LOCALHOST + (profile.get("localhostProfile") or ""):
            yield forbidden(f"{field}.localhostProfile", "apparmor profile in annotation and field must match")


def _containers(spec: Part) -> Iterator[tuple[str, Part]]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(part) or ()):
            yield f"{part}[{i}]", container
