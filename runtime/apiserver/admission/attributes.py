"""Admission attributes: the input of policies and webhooks, which upstream calls admission.Attributes.

Source: apiserver pkg/admission/attributes.go (v1.36).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.core.cluster import RoutedRequest
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import GroupVersionKind, subresource_of

CREATE, UPDATE, DELETE, CONNECT = "CREATE", "UPDATE", "DELETE", "CONNECT"
NAMESPACES = "namespaces"


class Attributes(NamedTuple):
    """Input of admission for a request: the operation, the objects before and after it, and the options."""

    call: RoutedRequest
    operation: str  # CREATE, UPDATE, DELETE or CONNECT
    kind: GroupVersionKind  # of the body: the resource's, or that of a subresource (Binding)
    name: str  # "" if it will be generated
    obj: Object | None  # in the request's version; None for a deletion
    old: Object | None  # None for a creation, and for a body of another kind than the resource (Binding)
    options: Object  # CreateOptions, UpdateOptions or DeleteOptions; empty for CONNECT, whose options are the object

    @property
    def definition(self) -> ResourceDefinition:
        return self.call.definition

    @property
    def subresource(self) -> str:
        return self.call.route.subresource

    @property
    def is_whole(self) -> bool:
        """Report whether obj and old are of the resource's kind; False for the body of a subresource (Binding).

        Only such objects can be converted between API versions.
        """
        return self.kind.kind == self.definition.kind and self.kind.group == self.definition.group

    @property
    def namespace(self) -> str:
        """Namespace of the object. For a Namespace object this is its own name, as upstream."""
        if self.definition.storage == NAMESPACES:
            return self.name or name_of(self.obj or {})
        return self.call.route.namespace


def attributes_of(
    call: RoutedRequest,
    operation: str,
    *,
    obj: Object | None = None,
    old: Object | None = None,
    options: Object | None = None,
) -> Attributes:
    """Return the admission attributes of a request.

    obj, old: the objects after and before the request, both in the API version of the request
    options: the DeleteOptions of a deletion; None for other operations, whose options are read from the query
    """
    definition = call.definition
    kind = subresource_of(call.route.subresource).kind if call.route.subresource else None
    if kind is None:
        kind = GroupVersionKind(definition.group, definition.version, definition.kind)
    name = call.route.name or name_of(obj or {})
    return Attributes(call, operation, kind, name, obj, old, options or _options(call, operation))


def _options(call: RoutedRequest, operation: str) -> Object:
    options: dict[str, Any] = {
        "kind": "CreateOptions" if operation == CREATE else "UpdateOptions",
        "apiVersion": "meta.k8s.io/v1",
    }
    if call.dry_run:
        options["dryRun"] = ["All"]
    for field in ("fieldManager", "fieldValidation"):
        if call.query.get(field):
            options[field] = call.query[field]
    return options
