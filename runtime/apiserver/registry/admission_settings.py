"""What admission plugins are told by their configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from kcm.protocols.quota.scopes import Scope

_NO_DEFAULTS: Mapping[str, str] = MappingProxyType({})


class LimitedResource(NamedTuple):
    """What may only be used within a quota: of a resource what is called so, in part (requests.cpu), and what meets one
    of the scopes.
    """

    group: str
    resource: str
    contains: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ()


class PodSecuritySettings(NamedTuple):
    """defaults: of the labels of namespaces, without their prefix. The rest is held to nothing: users, namespaces and
    runtime classes.
    """

    defaults: Mapping[str, str] = _NO_DEFAULTS
    users: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


class AdmissionSettings(NamedTuple):
    limited: tuple[LimitedResource, ...] = ()
    pod_security: PodSecuritySettings = PodSecuritySettings()


BY_DEFAULT = AdmissionSettings()
