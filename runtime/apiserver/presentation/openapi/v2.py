"""OpenAPI v2: one document of all APIs, for older kubectl, Helm, Terraform and client generators.

Source: apiserver pkg/server/routes/openapi.go; kube-openapi pkg/handler/handler.go; api/openapi-spec/swagger.json
(v1.36). Difference: operations and parameters have no descriptions, fields no enumerations; there are no operations
for watch paths, nor for proxying to kubelets and pods.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence

import orjson
from msgspec import Struct

from kcm.runtime.apiserver.presentation.openapi.descriptions import Descriptions
from kcm.runtime.apiserver.presentation.openapi.v2_paths import PARAMETERS, paths
from kcm.runtime.apiserver.presentation.openapi.v2_protobuf import encoded
from kcm.runtime.apiserver.presentation.openapi.v2_schemas import schemas
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.schema.api_types import ApiTypes

_BEARER = {"description": "Bearer Token authentication", "type": "apiKey", "name": "authorization", "in": "header"}


class Document(Struct, frozen=True):
    """OpenAPI v2 document in JSON and in protobuf, compressed in memory.

    etag: ETag of both encodings, without quotes
    """

    etag: str
    _json: bytes
    _protobuf: bytes

    def json(self) -> bytes:
        return zlib.decompress(self._json)

    def protobuf(self) -> bytes:
        return zlib.decompress(self._protobuf)


def make_document(
    definitions: Sequence[ResourceDefinition], types: ApiTypes, descriptions: Descriptions, version: str
) -> Document:
    """Build the document of these resources. version: version of Kubernetes, such as "1.36"."""
    found = {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version},
        "paths": dict(sorted(paths(definitions, types))),
        "definitions": dict(sorted(schemas(definitions, types, descriptions).items())),
        "parameters": PARAMETERS,
        "securityDefinitions": {"BearerToken": _BEARER},
        "security": [{"BearerToken": []}],
    }
    raw = orjson.dumps(found)
    etag = hashlib.sha512(raw).hexdigest().upper()
    return Document(etag, zlib.compress(raw), zlib.compress(encoded(found)))
