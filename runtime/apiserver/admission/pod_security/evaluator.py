"""What is too much for a level in a pod: the checks of baseline first, then those of restricted.

Source: pod-security-admission policy/registry.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import annotations_of
from kcm.runtime.apiserver.admission.pod_security.baseline import CHECKS
from kcm.runtime.apiserver.admission.pod_security.check_support import Finding, Pod
from kcm.runtime.apiserver.admission.pod_security.levels import BASELINE, PRIVILEGED, Level
from kcm.runtime.apiserver.admission.pod_security.restricted import RESTRICTIONS

NEWEST = 36  # the minor version whose rules "latest" means


def findings(level: Level, pod: Mapping[str, Any]) -> list[Finding]:
    """pod: with metadata and spec; a template will do."""
    if level.name == PRIVILEGED:
        return []
    minor = NEWEST if level.minor is None else min(level.minor, NEWEST)
    seen = Pod(annotations_of(pod), pod.get("spec") or {}, minor)
    restrictions = [one for one in RESTRICTIONS.values() if level.name != BASELINE and one.since <= minor]
    replaced = {one.instead for one in restrictions}
    checks = [check for name, check in CHECKS.items() if name not in replaced]
    results = [check(seen) for check in (*checks, *(one.check for one in restrictions))]
    return [one for one in results if one is not None]


def described(found: list[Finding]) -> str:
    return ", ".join(map(str, found))
