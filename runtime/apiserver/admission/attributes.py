"""What is admitted: an object that a request creates, changes or deletes, with all that plugins decide by.

Source: apiserver pkg/admission/attributes.go (v1.36).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.core.cluster import Call
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import GroupVersionKind, subresource_of

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
NAMESPACES = "namespaces"


class Attributes(NamedTuple):
    """kind: of the object, which is that of the resource or of a subresource's body. name: "" where it is still to be
    generated. obj: as the request's version has it; None for a deletion. old: None for a creation; of a body that is no
    version of the resource's object (a Binding), too. options: CreateOptions, UpdateOptions or DeleteOptions.
    """

    call: Call
    operation: str
    kind: GroupVersionKind
    name: str
    obj: Object | None
    old: Object | None
    options: Object

    @property
    def definition(self) -> ResourceDefinition:
        return self.call.definition

    @property
    def subresource(self) -> str:
        return self.call.route.subresource

    @property
    def is_whole(self) -> bool:
        """Whether the object is that of the resource, and so has other versions where this has some."""
        return self.kind.kind == self.definition.kind and self.kind.group == self.definition.group

    @property
    def namespace(self) -> str:
        """A namespace is in itself."""
        if self.definition.storage == NAMESPACES:
            return self.name or name_of(self.obj or {})
        return self.call.route.namespace


def attributes_of(
    call: Call,
    operation: str,
    *,
    obj: Object | None = None,
    old: Object | None = None,
    options: Object | None = None,
) -> Attributes:
    """obj, old: in the request's version. options: of a deletion; else they are read from the query."""
    definition = call.definition
    kind = subresource_of(call.route.subresource).kind if call.route.subresource else None
    if kind is None:
        kind = GroupVersionKind(definition.group, definition.version, definition.kind)
    name = call.route.name or name_of(obj or {})
    return Attributes(call, operation, kind, name, obj, old, options or _options(call, operation))


def _options(call: Call, operation: str) -> Object:
    said: dict[str, Any] = {
        "kind": "CreateOptions" if operation == CREATE else "UpdateOptions",
        "apiVersion": "meta.k8s.io/v1",
    }
    if call.dry_run:
        said["dryRun"] = ["All"]
    for field in ("fieldManager", "fieldValidation"):
        if call.query.get(field):
            said[field] = call.query[field]
    return said
