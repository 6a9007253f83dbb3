"""Facts about API types, from OpenAPI v3 documents of a server or of a Kubernetes release.

The following parts of the documents are left out: descriptions; types of custom resources and of aggregated APIs; and
what differs between a server and the files of a release. These differences are enumerations, which only a server
publishes, and the kinds of DeleteOptions and WatchEvent, which depend on the enabled API groups.
"""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Facts = dict[str, Any]  # what api_types.json contains for a type or a field

# Name prefixes of upstream's modules with API types.
MODULES = tuple(f"io.k8s.{name}." for name in ("api", "apiextensions-apiserver", "apimachinery", "kube-aggregator"))
REFERENCE = "#/components/schemas/"
KINDS = "x-kubernetes-group-version-kind"
EXTENSIONS = {
    "x-kubernetes-list-type": "listType",
    "x-kubernetes-list-map-keys": "listMapKeys",
    "x-kubernetes-map-type": "mapType",
    "x-kubernetes-patch-strategy": "patchStrategy",
    "x-kubernetes-patch-merge-key": "patchMergeKey",
    "x-kubernetes-unions": "unions",
}
SCALARS = {
    ("string", None): "string",
    ("string", "byte"): "bytes",
    ("boolean", None): "boolean",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "double",
}
_PROSE_AND_ENUMERATIONS = {"description", "enum"}


class NoTypesError(ValueError):
    """OpenAPI documents do not contain any type of the Kubernetes API."""


class UnknownVocabularyError(ValueError):
    """Schema keyword that the generated types cannot represent."""


def read_directory(directory: Path) -> Iterator[Json]:
    """Yield the OpenAPI documents in a release's directory api/openapi-spec/v3."""
    for file in sorted(directory.glob("*_openapi.json")):
        yield json.loads(file.read_text(encoding="utf-8"))


def read_server(url: str, *, token: str, context: ssl.SSLContext | None) -> Iterator[Json]:
    """Yield the OpenAPI documents that a server lists at /openapi/v3. token: bearer token, or ""."""
    for place in _get(url, "/openapi/v3", token, context)["paths"].values():
        yield _get(url, place["serverRelativeURL"], token, context)


def _get(url: str, path: str, token: str, context: ssl.SSLContext | None) -> Json:
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url.rstrip("/") + path, headers=headers)
    with urllib.request.urlopen(request, context=context, timeout=60) as response:
        found: Json = json.load(response)
        return found


def collect(documents: Iterable[Json]) -> tuple[dict[str, Facts], dict[str, str]]:
    """Return the facts about each upstream type by its name, and type names by "<apiVersion>/<kind>".

    Raises UnknownVocabularyError and NoTypesError.
    """
    schemas: dict[str, Json] = {}
    for document in documents:
        found = document.get("components", {}).get("schemas", {})
        schemas |= {name: schema for name, schema in found.items() if name.startswith(MODULES)}
    if not schemas:
        raise NoTypesError("the OpenAPI documents contain no type of the Kubernetes API")
    types, kinds = {}, {}
    for name, schema in sorted(schemas.items()):
        try:
            types[name] = _type_facts(schema)
        except UnknownVocabularyError as err:
            raise UnknownVocabularyError(f"{name}: {err}") from err
        of_kind = schema.get(KINDS, ())
        if len({kind["group"] for kind in of_kind}) == 1:
            for kind in of_kind:
                kinds["/".join(filter(None, (kind["group"], kind["version"], kind["kind"])))] = name
    return types, kinds


def _type_facts(schema: Json) -> Facts:
    rest = {word: value for word, value in schema.items() if word not in _PROSE_AND_ENUMERATIONS and word != KINDS}
    facts = {EXTENSIONS[word]: rest.pop(word) for word in list(rest) if word in EXTENSIONS}
    if "properties" not in rest:
        return facts | {"schema": rest}
    properties, required = rest.pop("properties"), set(rest.pop("required", ()))
    if rest != {"type": "object"}:
        raise UnknownVocabularyError(str(rest))
    fields = {}
    for name, field in sorted(properties.items()):
        fields[name] = _field_facts(name, field)
        if name in required:
            fields[name]["required"] = True
    return facts | {"fields": fields}


def _field_facts(name: str, schema: Json) -> Facts:
    rest = {word: value for word, value in schema.items() if word not in _PROSE_AND_ENUMERATIONS}
    facts = {EXTENSIONS[word]: rest.pop(word) for word in list(rest) if word in EXTENSIONS}
    if "default" in rest:
        facts["default"] = rest.pop("default")
    try:
        return _value_facts(rest) | facts
    except UnknownVocabularyError as err:
        raise UnknownVocabularyError(f"{name}: {err}") from err


def _value_facts(schema: Json) -> Facts:
    """Return the type of a value: {"type": name}, {"list": name}, {"map": name} or {"map": {"list": name}}."""
    match {word: value for word, value in schema.items() if word not in _PROSE_AND_ENUMERATIONS}:
        case {"allOf": [{"$ref": str(reference)}], **rest} | {"$ref": str(reference), **rest} if not rest:
            return {"type": reference.removeprefix(REFERENCE)}
        case {"type": "array", "items": dict(items), **rest} if not rest:
            return {"list": _element(items)}
        case {"type": "object", "additionalProperties": dict(values), **rest} if not rest:
            return {"map": _element(values)}
        case {"type": str(kind), **rest} if (kind, rest.get("format")) in SCALARS and not set(rest) - {"format"}:
            return {"type": SCALARS[kind, rest.get("format")]}
        case other:
            raise UnknownVocabularyError(str(other))


def _element(schema: Json) -> Any:
    facts = _value_facts({word: value for word, value in schema.items() if word != "default"})
    return facts.get("type", facts)
