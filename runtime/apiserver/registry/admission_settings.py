"""Configuration of admission plugins."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kcm.protocols.quota.scopes import ScopeRequirement

_NO_DEFAULTS: Mapping[str, str] = MappingProxyType({})


class LimitedResource(NamedTuple):
    """Resource that requires a covering quota (limitedResources of ResourceQuota).

    contains: parts of the names of usages, such as "requests.cpu".
    scopes: objects in one of these scopes are limited.
    """

    group: str
    resource: str
    contains: tuple[str, ...] = ()
    scopes: tuple[ScopeRequirement, ...] = ()


class PodSecuritySettings(NamedTuple):
    """Configuration of PodSecurity.

    defaults: labels of namespaces that have none, without their prefix.
    users, namespaces, runtime_classes: exemptions.
    """

    defaults: Mapping[str, str] = _NO_DEFAULTS
    users: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


class AdmissionSettings(NamedTuple):
    limited: tuple[LimitedResource, ...] = ()
    pod_security: PodSecuritySettings = PodSecuritySettings()


BY_DEFAULT = AdmissionSettings()
