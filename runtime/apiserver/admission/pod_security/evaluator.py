"""Evaluation of a pod against a level of the Pod Security Standards.

Source: pod-security-admission policy/registry.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import annotations_of
from kcm.runtime.apiserver.admission.pod_security.baseline import CHECKS
from kcm.runtime.apiserver.admission.pod_security.check_support import Finding, Pod
from kcm.runtime.apiserver.admission.pod_security.levels import BASELINE, PRIVILEGED, LevelVersion
from kcm.runtime.apiserver.admission.pod_security.restricted import RESTRICTIONS

NEWEST = 36  # minor version of the newest rules, for "latest" and for newer versions


def findings(level: LevelVersion, pod: Mapping[str, Any]) -> list[Finding]:
    """Return the violations of a level by a pod or a pod template: those of baseline, then those of restricted."""
    if level.name == PRIVILEGED:
        return []
    minor = NEWEST if level.minor is None else min(level.minor, NEWEST)
    seen = Pod(annotations_of(pod), pod.get("spec") or {}, minor)
    restrictions = [
        restriction for restriction in RESTRICTIONS.values() if level.name != BASELINE and restriction.since <= minor
    ]
    replaced = {restriction.instead for restriction in restrictions}
    checks = [check for name, check in CHECKS.items() if name not in replaced]
    results = [check(seen) for check in (*checks, *(restriction.check for restriction in restrictions))]
    return [finding for finding in results if finding is not None]


def described(found: list[Finding]) -> str:
    return ", ".join(map(str, found))
