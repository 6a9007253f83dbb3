"""Evaluators: how much of what an object of one resource uses.

Source: kubernetes v1.36 staging/src/k8s.io/apiserver/pkg/quota/v1/interfaces.go, generic/evaluator.go,
pkg/quota/v1/evaluator/core/registry.go, pkg/quota/v1/install/registry.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.protocols.objects import Object
from kcm.protocols.quota.amounts import ONE, Amounts
from kcm.protocols.quota.names import count_of
from kcm.protocols.quota.scopes import Scope

CREATE, UPDATE = "CREATE", "UPDATE"

# Resources without a group that a quota may name by their plural alone.
PLAIN_NAMES = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")

# What is not stored, and events, which no quota ever counted. By Resource.name.
IGNORED = frozenset(
    {
        "bindings",
        "componentstatuses",
        "tokenreviews.authentication.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "selfsubjectaccessreviews.authorization.k8s.io",
        "localsubjectaccessreviews.authorization.k8s.io",
        "selfsubjectrulesreviews.authorization.k8s.io",
        "events",
        "events.events.k8s.io",
    }
)


class Evaluator:
    """Counts the objects of a resource. Others count more of theirs, and say here how they differ.

    resource: Resource.name. needs_objects: a usage is read from the whole object, not from its metadata.
    has_essence: `usage` and `meets` read nothing but its essence, so that objects with equal ones are counted together.
    """

    needs_objects = False
    has_essence = False

    def __init__(self, resource: str) -> None:
        self.resource = resource
        names = [count_of(resource)]
        if resource in PLAIN_NAMES:
            names.append(resource)
        self._names = frozenset(names)

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Those of these resource names that it can count."""
        return self._names.intersection(names)

    def usage(self, _obj: Object, /) -> Amounts:
        """What this object uses. Raises ValueError on an object that cannot be read."""
        return dict.fromkeys(self._names, ONE)

    def essence(self, obj: Object, /) -> Object:
        """All of an object that is counted, where has_essence. Raises AttributeError on what cannot be read."""
        return obj

    def meets(self, _obj: Object, _scope: Scope, /) -> bool:
        """Whether a quota of this scope is about the object. Raises ValueError on a scope that makes no sense."""
        return False

    def lacks(self, _obj: Object, _names: Iterable[str], /) -> str:
        """What an object has to say where a quota limits these resources, and does not; "" where all is well."""
        return ""

    def handles(self, operation: str, subresource: str, _new: Object, _old: Object | None, /) -> bool:
        """Whether such a request can change what is used. operation: CREATE or UPDATE."""
        return operation == CREATE and not subresource
