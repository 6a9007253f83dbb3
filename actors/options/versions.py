"""Versions that a component emulates and is compatible with: --emulated-version and --min-compatibility-version.

Source: kubernetes v1.36 staging/src/k8s.io/component-base/compatibility, registry.go and version.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kcm.runtime.flags.values import quote

COMPONENT = "kube"


class MinorVersion(NamedTuple):
    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class EffectiveVersions(NamedTuple):
    """Release that is emulated, and the oldest release to be compatible with."""

    emulation: MinorVersion
    min_compatibility: MinorVersion


BINARY = MinorVersion(1, 36)  # compared with the real programs; emulated by default
NEWEST = MinorVersion(1, 37)  # can be emulated as well, see later_gates.py
FLOOR = MinorVersion(1, 33)  # of both flags: three minor versions before the binary's
CURRENT = EffectiveVersions(BINARY, MinorVersion(BINARY.major, BINARY.minor - 1))

_VERSION = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*).*", re.ASCII)
_LARGEST = 2**64 - 1


def version_faults(emulated: Iterable[str], min_compatible: Iterable[str]) -> list[str]:
    """Return the errors in the values of the two flags: one syntax error, or all values that are out of range.

    emulated, min_compatible: values as on the command line, `1.35` or `kube=1.35`.
    """
    try:
        emulation, compatibility = effective_versions(emulated, min_compatible)
    except ValueError as err:
        return [str(err)]
    faults = []
    if not FLOOR <= emulation <= NEWEST:
        faults.append(f"emulation version {emulation} is not between [{FLOOR}, {NEWEST}.0]")
    if not FLOOR <= compatibility <= emulation:
        faults.append(f"minCompatibilityVersion version {compatibility} is not between [{FLOOR}, {emulation}]")
    return faults


def effective_versions(emulated: Iterable[str] = (), min_compatible: Iterable[str] = ()) -> EffectiveVersions:
    """Return the versions that the two flags select. Raises ValueError for invalid syntax."""
    emulation, compatibility = CURRENT
    chosen = _of_kube(emulated)
    if chosen is not None:
        emulation, compatibility = chosen, max(MinorVersion(chosen.major, max(0, chosen.minor - 1)), FLOOR)
    return EffectiveVersions(emulation, _of_kube(min_compatible) or compatibility)


def _of_kube(values: Iterable[str]) -> MinorVersion | None:
    """Return the version of the component kube, or None if the component is missing. Raises ValueError."""
    found: dict[str, tuple[MinorVersion, str]] = {}
    for value in values:
        component, equals, text = value.partition("=")
        if not equals:
            component, text = COMPONENT, value
        component, text = component.strip(), text.strip() if equals else text
        version, patch, whole = _parsed(text)
        if patch:
            raise ValueError(f"patch version not allowed, got: {component}={whole}")
        if component in found:
            raise ValueError(f"duplicate version flag, {component}={found[component][1]} and {component}={whole}")
        found[component] = version, whole
    for component in found:
        if component != COMPONENT:
            raise ValueError(f"component not registered: {component}")
    return found[COMPONENT][0] if found else None


def _parsed(text: str) -> tuple[MinorVersion, int, str]:
    """Return the minor version, the patch version, and the numbers as text. Raises ValueError."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"could not parse {quote(text)} as version")
    components = match[1].split(".")
    if len(components) < 2:
        raise ValueError(f"illegal version string {quote(text)}")
    if components[0].startswith("0") and components[0] != "0":
        raise ValueError(f"illegal zero-prefixed version component {quote(components[0])} in {quote(text)}")
    for component in components:
        if int(component[:20]) > _LARGEST or len(component.lstrip("0")) > 20:
            raise ValueError(
                f"illegal non-numeric version component {quote(component)} in {quote(text)}: "
                f"strconv.ParseUint: parsing {quote(component)}: value out of range"
            )
    numbers = [int(component) for component in components]
    patch = numbers[2] if len(numbers) > 2 else 0
    return MinorVersion(numbers[0], numbers[1]), patch, ".".join(map(str, numbers))
