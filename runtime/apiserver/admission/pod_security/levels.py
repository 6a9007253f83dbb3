"""Policy of a namespace: the level and version of each mode, from its labels.

Source: pod-security-admission api/helpers.go, api/constants.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid

PREFIX = "pod-security.kubernetes.io/"
PRIVILEGED, BASELINE, RESTRICTED = LEVELS = ("privileged", "baseline", "restricted")  # in increasing strictness
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")


class LevelVersion(NamedTuple):
    """Level of the Pod Security Standards, and the version of its rules."""

    name: str = PRIVILEGED
    minor: int | None = None  # Kubernetes minor version: 36 for v1.36; None: the latest

    def __str__(self) -> str:
        return f"{self.name}:{'latest' if self.minor is None else f'v1.{self.minor}'}"


class NamespacePolicy(NamedTuple):
    """Pod Security policy of a namespace: the level for each mode (enforce, audit, warn)."""

    enforce: LevelVersion = LevelVersion()
    audit: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()

    @property
    def allows_all(self) -> bool:
        return all(level.name == PRIVILEGED for level in self)


NO_POLICY = NamespacePolicy()


def policy_of(
    labels: Mapping[str, str], defaults: NamespacePolicy = NO_POLICY
) -> tuple[NamespacePolicy, list[FieldError]]:
    """Return the policy that the labels of a namespace select, and the errors in them.

    An invalid level counts as restricted for enforce, and as privileged for audit and warn. If enforce is set and
    warn is not, warn follows it.
    """
    found: dict[str, LevelVersion] = {}
    errors: list[FieldError] = []
    for mode, default in zip(NamespacePolicy._fields, defaults, strict=True):
        level = labels.get(f"{PREFIX}{mode}")
        name, minor = default.name if level is None else level, default.minor
        if name not in LEVELS:
            name = RESTRICTED if mode == "enforce" else PRIVILEGED
            errors.append(_wrong(mode, level or "", f"must be one of {', '.join(LEVELS)}"))
        version = labels.get(f"{PREFIX}{mode}-version")
        if version is not None:
            minor = None
        if version not in (None, "latest"):
            match = _VERSION.fullmatch(version or "")
            if match is None:
                errors.append(_wrong(f"{mode}-version", version or "", 'must be "latest" or "v1.x"'))
            else:
                minor = int(match[1])
        found[mode] = LevelVersion(name, minor)
    enforce, warn = found["enforce"], found["warn"]
    given = labels.get(f"{PREFIX}enforce") in LEVELS and f"{PREFIX}warn" not in labels
    if given and LEVELS.index(enforce.name) > LEVELS.index(warn.name):
        minor = warn.minor if f"{PREFIX}warn-version" in labels else enforce.minor
        found["warn"] = LevelVersion(enforce.name, minor)
    return NamespacePolicy(**found), errors


def _wrong(label: str, value: str, why: str) -> FieldError:
    return invalid(f"metadata.labels[{PREFIX}{label}]", value, why)
