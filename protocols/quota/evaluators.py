"""Evaluators, which return the usage of objects of one resource.

Source: kubernetes v1.36 staging/src/k8s.io/apiserver/pkg/quota/v1/interfaces.go, generic/evaluator.go,
pkg/quota/v1/evaluator/core/registry.go, pkg/quota/v1/install/registry.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.protocols.objects import Object
from kcm.protocols.quota.amounts import ONE, Amounts
from kcm.protocols.quota.names import count_of
from kcm.protocols.quota.scopes import ScopeRequirement

CREATE, UPDATE = "CREATE", "UPDATE"

# Resources without a group that a quota may name by their plural alone.
PLAIN_NAMES = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")

# Resources that are not stored, and events, which quotas do not count. By Resource.name.
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
    """Evaluator that counts the objects of a resource. Subclasses also count other resources.

    resource: Resource.name.
    needs_objects: the usage depends on the whole object, not only on its metadata.
    has_essence: `usage` and `meets` read only the essence, so that objects with equal essences are evaluated once.
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
        """Return the resource names that this evaluator counts."""
        return self._names.intersection(names)

    def usage(self, _obj: Object, /) -> Amounts:
        """Return the usage of an object. Raises ValueError for an invalid object."""
        return dict.fromkeys(self._names, ONE)

    def essence(self, obj: Object, /) -> Object:
        """Return the parts of the object that `usage` and `meets` read. Raises AttributeError for an invalid object."""
        return obj

    def meets(self, _obj: Object, _scope: ScopeRequirement, /) -> bool:
        """Report whether the object is in the scope. Raises ValueError for an invalid scope."""
        return False

    def lacks(self, _obj: Object, _names: Iterable[str], /) -> str:
        """Return the error if the object does not specify these limited resources, or ""."""
        return ""

    def handles(self, operation: str, subresource: str, _new: Object, _old: Object | None, /) -> bool:
        """Report whether such a request may change the usage. operation: CREATE or UPDATE."""
        return operation == CREATE and not subresource
