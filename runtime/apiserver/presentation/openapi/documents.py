"""OpenAPI v3 documents, one per group version, for `kubectl explain`, apply and --dry-run=server.

A document is built when it is first requested. v2.py builds the document of OpenAPI v2.

Source: apiserver pkg/server/routes/openapi.go, api/openapi-spec/v3 (v1.36).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from kcm.protocols.messages.commands import PatchType
from kcm.runtime.apiserver.presentation.openapi.descriptions import Descriptions
from kcm.runtime.apiserver.presentation.openapi.schemas import (
    GROUP_VERSION_KIND,
    custom_type_name,
    kind_of,
    reference,
    schemas_of,
)
from kcm.runtime.apiserver.presentation.openapi.v2 import Document, make_document
from kcm.runtime.apiserver.registry.definitions import Registry, ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import subresource_of
from kcm.runtime.schema.api_types import ApiTypes

_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_LIST_PARAMETERS = ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "timeoutSeconds", "watch")


MOST_SCHEMAS = 4096  # maximum number of cached hashes


class OpenApi:
    """OpenAPI documents of the resources in a registry, cached until the served resources change."""

    def __init__(self, registry: Registry, types: ApiTypes, descriptions: Descriptions, *, build: str = "") -> None:
        """Create an empty cache.

        build: version of the server; the hashes of documents depend on it, as other versions may build other documents
        """
        self._build = build
        self._registry, self._types, self._descriptions = registry, types, descriptions
        self._documents: dict[str, tuple[str, bytes]] = {}
        self._hashes: dict[int, tuple[Mapping[str, Any], str]] = {}  # hashes of custom kinds' schemas, by id()

    def index(self) -> dict[str, Any]:
        """Return the document at /openapi/v3: the URL of each group version's document, with the document's hash."""
        return {
            "paths": {
                path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={self._hash(definitions)}"}
                for path, definitions in self._group_versions().items()
            }
        }

    def document(self, path: str) -> tuple[str, bytes] | None:
        """Return the hash and the encoded document of a group version; None if it is not served.

        path: discovery path without a leading slash, such as "api/v1" or "apis/apps/v1"
        """
        definitions = self._group_versions().get(path)
        if definitions is None:
            return None
        version = self._hash(definitions)
        kept = self._documents.get(path)
        if kept is None or kept[0] != version:
            document = {
                "openapi": "3.0.0",
                "info": {"title": "Kubernetes", "version": "unversioned"},
                "paths": dict(_paths(path, definitions, self._types)),
                "components": {"schemas": schemas_of(definitions, self._types, self._descriptions)},
            }
            served = self._group_versions()
            self._documents = {
                kept_path: kept_document for kept_path, kept_document in self._documents.items() if kept_path in served
            }
            kept = self._documents[path] = (version, orjson.dumps(document))
        return kept

    def everything(self) -> tuple[str, Callable[[str], Document]]:
        """Return a hash of all served resources, and a function that builds their OpenAPI v2 document.

        The function takes the version of Kubernetes ("1.36") and may run on any thread. The document describes the
        resources that are served now, not those at the time when the function runs.
        """
        definitions = list(self._registry)
        make = partial(make_document, definitions, self._types, self._descriptions)
        return self._hash(definitions), make

    def _hash(self, definitions: Sequence[ResourceDefinition]) -> str:
        rows = sorted(
            (
                definition.name,
                definition.version,
                definition.kind,
                definition.verbs,
                definition.subresources,
                definition.namespaced,
                self._schema_hash(definition.schema),
            )
            for definition in definitions
        )
        return hashlib.sha256(orjson.dumps([self._build, rows])).hexdigest()[:32]

    def _schema_hash(self, schema: Mapping[str, Any] | None) -> str:
        if schema is None:
            return ""
        kept = self._hashes.get(id(schema))
        if kept is None or kept[0] is not schema:
            if len(self._hashes) >= MOST_SCHEMAS:  # includes schemas of deleted definitions
                self._hashes.clear()
            digest = hashlib.sha256(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)).hexdigest()
            kept = self._hashes[id(schema)] = (schema, digest)
        return kept[1]

    def _group_versions(self) -> dict[str, list[ResourceDefinition]]:
        found: dict[str, list[ResourceDefinition]] = {}
        for definition in self._registry:
            root = "apis/" if definition.group else "api/"
            found.setdefault(f"{root}{definition.api_version}", []).append(definition)
        return found


def _paths(
    root: str, definitions: Iterable[ResourceDefinition], types: ApiTypes
) -> Iterator[tuple[str, dict[str, Any]]]:
    for definition in definitions:
        inside = f"/{root}/namespaces/{{namespace}}" if definition.namespaced else f"/{root}"
        collection = f"{inside}/{definition.plural}"
        verbs = {"list": "get", "create": "post", "deletecollection": "delete"}
        yield collection, _operations(types, definition, verbs, definition.verbs)
        if definition.namespaced and "list" in definition.verbs:
            yield f"/{root}/{definition.plural}", _operations(types, definition, {"list": "get"}, definition.verbs)
        verbs = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}
        if set(verbs) & set(definition.verbs):
            yield f"{collection}/{{name}}", _operations(types, definition, verbs, definition.verbs)
        for name in definition.subresources:
            of = {"get": "get", "update": "put", "patch": "patch", "create": "post"}
            path = f"{collection}/{{name}}/{name}"
            yield path, _operations(types, definition, of, subresource_of(name).verbs, name)


def _operations(
    types: ApiTypes,
    definition: ResourceDefinition,
    methods: Mapping[str, str],
    verbs: Iterable[str],
    subresource: str = "",
) -> dict[str, Any]:
    kind = kind_of(definition, subresource)
    return {
        methods[verb]: {
            "x-kubernetes-action": verb if verb in ("get", "list", "patch", "delete") else methods[verb],
            GROUP_VERSION_KIND: kind,
            "parameters": [
                {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
                for name in _parameters(verb)
            ],
            **_body(types, verb, kind, definition),
            "responses": {"200": {"description": "OK"}},
        }
        for verb in verbs
        if verb in methods
    }


def _parameters(verb: str) -> Sequence[str]:
    if verb in ("create", "update"):
        return _WRITE_PARAMETERS
    if verb == "patch":
        return (*_WRITE_PARAMETERS, "force")
    if verb in ("list", "deletecollection"):
        return _LIST_PARAMETERS
    return ("dryRun", "gracePeriodSeconds", "propagationPolicy") if verb == "delete" else ()


def _body(types: ApiTypes, verb: str, kind: dict[str, str], definition: ResourceDefinition) -> dict[str, Any]:
    if verb == "patch":
        patches = [type_ for type_ in PatchType if not (definition.dynamic and type_ == PatchType.STRATEGIC)]
        return {"requestBody": {"content": {str(type_): {"schema": {"type": "object"}} for type_ in patches}}}
    if verb not in ("create", "update"):
        return {}
    name = types.name_of(**kind) or custom_type_name(kind)
    return {"requestBody": {"content": {"*/*": {"schema": reference(name)}}}}
