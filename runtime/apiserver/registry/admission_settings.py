"""Settings of admission plugins."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kcm.protocols.quota.scopes import ScopeRequirement

_NO_DEFAULTS: Mapping[str, str] = MappingProxyType({})


class LimitedResource(NamedTuple):
    """Resource whose objects can only be created if a quota covers them (limitedResources of ResourceQuota).

    contains: parts of the names of the usages to cover, such as "requests.cpu"
    scopes: objects in one of these scopes must be covered
    """

    group: str
    resource: str
    contains: tuple[str, ...] = ()
    scopes: tuple[ScopeRequirement, ...] = ()


class PodSecuritySettings(NamedTuple):
    """Settings of the PodSecurity plugin.

    defaults: default labels of namespaces, without the prefix pod-security.kubernetes.io/
    users, namespaces, runtime_classes: names that are exempt from the checks
    """

    defaults: Mapping[str, str] = _NO_DEFAULTS
    users: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


class AdmissionSettings(NamedTuple):
    limited: tuple[LimitedResource, ...] = ()
    pod_security: PodSecuritySettings = PodSecuritySettings()


BY_DEFAULT = AdmissionSettings()
