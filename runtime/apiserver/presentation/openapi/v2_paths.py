"""Paths of the OpenAPI v2 document: the operations of each resource, with their operationIds.

Source: apiserver pkg/endpoints/installer.go, pkg/endpoints/openapi/openapi.go; apiextensions-apiserver
pkg/controller/openapi/builder/builder.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.messages.commands import PatchType
from kcm.runtime.apiserver.presentation.openapi.schemas import GROUP_VERSION_KIND, custom_type_name, kind_of
from kcm.runtime.apiserver.presentation.openapi.v2_schemas import DELETE_OPTIONS, INFO, PATCH, STATUS, reference
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import subresource_of
from kcm.runtime.schema.api_types import META, ApiTypes

_JSON, _YAML, _PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
_ALL = (_JSON, _YAML, _PROTOBUF)
_STREAMS = (f"{_JSON};stream=watch", f"{_PROTOBUF};stream=watch")
_TEXTS = {200: "OK", 201: "Created", 202: "Accepted"}

_WRITE_OPTIONS = ("dryRun", "fieldManager", "fieldValidation")
_LIST_OPTIONS = (
    *("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch"),
    *("sendInitialEvents", "shardSelector", "timeoutSeconds"),
)
_DELETE_OPTIONS = (
    *("dryRun", "gracePeriodSeconds", "ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents"),
    "propagationPolicy",
)
_WATCH_OPTIONS = ("allowWatchBookmarks", "watch")
_TYPES = {
    "boolean": (
        *("allowWatchBookmarks", "force", "ignoreStoreReadErrorWithClusterBreakingPotential"),
        *("orphanDependents", "sendInitialEvents", "watch"),
    ),
    "integer": ("gracePeriodSeconds", "limit", "timeoutSeconds"),
}
_TYPE_OF = {name: type_ for type_, names in _TYPES.items() for name in names}
_IN_PATH = ("name", "namespace")


class PathAction(NamedTuple):
    """Presentation of a verb in the OpenAPI v2 document.

    name: value of x-kubernetes-action
    method: HTTP method
    operation: prefix of the operationId
    options: names of the query parameters
    statuses: status codes of successful responses
    """

    name: str
    method: str
    operation: str
    options: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (200,)


_ACTIONS: Mapping[str, PathAction] = {
    "list": PathAction("list", "get", "list", (*_LIST_OPTIONS, *_WATCH_OPTIONS)),
    "create": PathAction("post", "post", "create", _WRITE_OPTIONS, (200, 201, 202)),
    "deletecollection": PathAction(
        "deletecollection", "delete", "deleteCollection", (*_LIST_OPTIONS, *_DELETE_OPTIONS)
    ),
    "get": PathAction("get", "get", "read"),
    "update": PathAction("put", "put", "replace", _WRITE_OPTIONS, (200, 201)),
    "patch": PathAction("patch", "patch", "patch", (*_WRITE_OPTIONS, "force"), (200, 201)),
    "delete": PathAction("delete", "delete", "delete", _DELETE_OPTIONS, (200, 202)),
}
# Upstream builds the operations of custom resources in apiextensions, with other parameters.
_CUSTOM_ACTIONS: Mapping[str, PathAction] = {
    **_ACTIONS,
    "deletecollection": _ACTIONS["deletecollection"]._replace(options=(*_LIST_OPTIONS, *_WATCH_OPTIONS)),
    "get": _ACTIONS["get"]._replace(options=("resourceVersion",)),
    "patch": _ACTIONS["patch"]._replace(statuses=(200,)),
}
_COLLECTION_VERBS, _OBJECT_VERBS = ("list", "create", "deletecollection"), ("get", "update", "patch", "delete")
_SUBRESOURCE_VERBS = ("get", "update", "patch", "create")


def _parameter(name: str) -> dict[str, Any]:
    place = {"in": "path", "required": True} if name in _IN_PATH else {"in": "query"}
    return {"uniqueItems": True, "type": _TYPE_OF.get(name, "string"), "name": name, **place}


_NAMES = sorted({"pretty", *_IN_PATH, *(name for action in _ACTIONS.values() for name in action.options)})
# Shared parameters by name; operations refer to them.
PARAMETERS: Mapping[str, Mapping[str, Any]] = {name: _parameter(name) for name in _NAMES}


def paths(definitions: Sequence[ResourceDefinition], types: ApiTypes) -> Iterator[tuple[str, dict[str, Any]]]:
    for definition in definitions:
        yield from _resource_paths(definition, types)
    yield from _discovery_paths(definitions)
    code = _discovery_operation("getCodeVersion", "version", INFO, (_JSON,))
    yield "/version/", {"get": code}
    yield "/.well-known/openid-configuration/", {"get": _issuer_operation("Configuration", "WellKnown", _JSON)}
    yield "/openid/v1/jwks/", {"get": _issuer_operation("Keyset", "openid", "application/jwk-set+json")}


def _resource_paths(definition: ResourceDefinition, types: ApiTypes) -> Iterator[tuple[str, dict[str, Any]]]:
    root = f"/apis/{definition.api_version}" if definition.group else f"/api/{definition.api_version}"
    everywhere = f"{root}/{definition.plural}"
    collection = f"{root}/namespaces/{{namespace}}/{definition.plural}" if definition.namespaced else everywhere
    operations = _Operations(definition, types)
    if definition.namespaced and "list" in definition.verbs:
        yield everywhere, operations.of(("list",), definition.verbs, everywhere)
    if set(_COLLECTION_VERBS) & set(definition.verbs):
        yield collection, operations.of(_COLLECTION_VERBS, definition.verbs, collection)
    if set(_OBJECT_VERBS) & set(definition.verbs):
        yield f"{collection}/{{name}}", operations.of(_OBJECT_VERBS, definition.verbs, f"{collection}/{{name}}")
    for name in definition.subresources:
        path = f"{collection}/{{name}}/{name}"
        yield path, operations.of(_SUBRESOURCE_VERBS, subresource_of(name).verbs, path, name)


class _Operations:
    """Builder of the operations of one resource."""

    def __init__(self, definition: ResourceDefinition, types: ApiTypes) -> None:
        self._definition, self._types = definition, types
        self._actions = _CUSTOM_ACTIONS if definition.dynamic else _ACTIONS

    def of(self, wanted: Iterable[str], verbs: Iterable[str], path: str, subresource: str = "") -> dict[str, Any]:
        """Return the operations and the shared parameters at a path.

        wanted: verbs that the path can have
        verbs: verbs that the resource or subresource supports
        subresource: name of the subresource; "" for the resource itself
        """
        verbs = frozenset(verbs)
        shared = [name for name in _IN_PATH if f"{{{name}}}" in path]
        found: dict[str, Any] = {
            self._actions[verb].method: self._operation(verb, path, subresource) for verb in wanted if verb in verbs
        }
        return found | {"parameters": [_shared(name) for name in (*shared, "pretty")]}

    def _operation(self, verb: str, path: str, subresource: str) -> dict[str, Any]:
        definition, action = self._definition, self._actions[verb]
        in_all_namespaces = definition.namespaced and verb == "list" and "{namespace}" not in path
        kind = kind_of(definition, subresource)
        parameters = [*self._body(verb, kind), *map(_shared, action.options)]
        scope = "Namespaced" if definition.namespaced and not in_all_namespaces else ""
        name = f"{scope}{definition.kind}{subresource.title()}"
        begin, collection = ("delete", "Collection") if verb == "deletecollection" else (action.operation, "")
        group = group_in_names(definition.group)
        version = definition.version
        end = "ForAllNamespaces" if in_all_namespaces else ""
        produced = (_JSON, _YAML) if definition.dynamic else _ALL
        shown = {
            "consumes": self._consumed(verb),
            "produces": (*produced, *_STREAMS) if verb == "list" and not definition.dynamic else produced,
            "schemes": ("https",),
            "tags": (_tag(group, version),),
            "operationId": f"{begin}{group}{version.title()}{collection}{name}{end}",
            "responses": _responses(self._response(verb, kind), action.statuses),
            "x-kubernetes-action": action.name,
            GROUP_VERSION_KIND: kind_of(definition) if definition.dynamic else kind,
        }
        return shown | ({"parameters": parameters} if parameters else {})

    def _consumed(self, verb: str) -> tuple[str, ...]:
        if verb == "patch":
            patches = (PatchType.JSON, PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY)
            return tuple(
                str(type_) for type_ in patches if not (self._definition.dynamic and type_ == PatchType.STRATEGIC)
            )
        return (_JSON, _YAML) if self._definition.dynamic else ("*/*",)

    def _body(self, verb: str, kind: Mapping[str, str]) -> list[dict[str, Any]]:
        of = {"create": self._schema(kind), "update": self._schema(kind), "patch": PATCH}.get(verb)
        if of is not None:
            return [{"name": "body", "in": "body", "required": True, "schema": reference(of)}]
        if verb == "delete" or (verb == "deletecollection" and not self._definition.dynamic):
            return [{"name": "body", "in": "body", "schema": reference(DELETE_OPTIONS)}]
        return []

    def _response(self, verb: str, kind: Mapping[str, str]) -> str:
        if verb == "deletecollection" or (verb == "delete" and not self._returns_deleted()):
            return STATUS
        return self._schema({**kind, "kind": self._definition.list_kind} if verb == "list" else kind)

    def _returns_deleted(self) -> bool:
        """Report whether the document has deletions return the object instead of a Status.

        Upstream's document has a Status for namespaces, although their deletion returns the object.
        """
        return self._definition.strategy.return_deleted_object and self._definition.name != "namespaces"

    def _schema(self, kind: Mapping[str, str]) -> str:
        return self._types.name_of(**kind) or custom_type_name(kind)


def _shared(name: str) -> dict[str, str]:
    return {"$ref": f"#/parameters/{name}"}


def _responses(name: str, statuses: Iterable[int]) -> dict[str, Any]:
    found: dict[str, Any] = {
        str(status): {"description": _TEXTS[status], "schema": reference(name)} for status in statuses
    }
    return found | {"401": {"description": "Unauthorized"}}


def group_in_names(group: str) -> str:
    """Return the name of a group in operationIds: "rbac.authorization.k8s.io" → "RbacAuthorization"; "" → "Core"."""
    parts = group.removesuffix(".k8s.io").split(".")
    return "".join(part[:1].upper() + part[1:] for part in parts) or "Core"


def _tag(group: str, version: str = "") -> str:
    name = group[:1].lower() + group[1:]
    return f"{name}_{version}" if version else name


def _discovery_paths(definitions: Iterable[ResourceDefinition]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the discovery paths, each with its operations. As in upstream, groups of custom resources have none."""
    versions = {(definition.group, definition.version) for definition in definitions if not definition.dynamic}
    yield "/api/", {"get": _discovery_operation("getCoreAPIVersions", "core", f"{META}.APIVersions")}
    yield "/apis/", {"get": _discovery_operation("getAPIVersions", "apis", f"{META}.APIGroupList")}
    for group in {group for group, _ in versions if group}:
        named = group_in_names(group)
        yield f"/apis/{group}/", {"get": _discovery_operation(f"get{named}APIGroup", _tag(named), f"{META}.APIGroup")}
    for group, version in versions:
        named = group_in_names(group)
        about = _discovery_operation(
            f"get{named}{version.title()}APIResources", _tag(named, version), f"{META}.APIResourceList"
        )
        yield f"/apis/{group}/{version}/" if group else f"/api/{version}/", {"get": about}


def _discovery_operation(operation: str, tag: str, name: str, types: tuple[str, ...] = _ALL) -> dict[str, Any]:
    return {
        "consumes": types,
        "produces": types,
        "schemes": ("https",),
        "tags": (tag,),
        "operationId": operation,
        "responses": _responses(name, (200,)),
    }


def _issuer_operation(what: str, tag: str, type_: str) -> dict[str, Any]:
    responses = {"200": {"description": "OK", "schema": {"type": "string"}}, "401": {"description": "Unauthorized"}}
    return {
        "produces": (type_,),
        "schemes": ("https",),
        "tags": (tag,),
        "operationId": f"getServiceAccountIssuerOpenID{what}",
        "responses": responses,
    }
