"""Presentation of one server: response forms, request bodies, field validation, discovery and OpenAPI documents."""

from __future__ import annotations

from collections.abc import Callable

from kcm.runtime.apiserver.presentation.discovery import DiscoveryDocuments
from kcm.runtime.apiserver.presentation.field_warnings import FieldWarnings
from kcm.runtime.apiserver.presentation.openapi.descriptions import installed_descriptions
from kcm.runtime.apiserver.presentation.openapi.documents import OpenApi
from kcm.runtime.apiserver.presentation.protobuf_cache import ProtobufCache
from kcm.runtime.apiserver.presentation.request_bodies import RequestBodies
from kcm.runtime.apiserver.presentation.response_converter import ResponseConverter
from kcm.runtime.apiserver.registry.definitions import Registry
from kcm.runtime.apiserver.registry.routing import FindRoute
from kcm.runtime.apiserver.schema.protobuf import ProtobufDecoder
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder
from kcm.runtime.schema.api_types import built_in_types


class Presentation:
    """Converters of request bodies and responses, and the discovery and OpenAPI documents, of one server.

    Not thread-safe.
    """

    def __init__(self, registry: Registry, find_route: FindRoute, *, now: Callable[[], float], build: str) -> None:
        """Create the converters and documents.

        now: returns the current Unix time in seconds
        build: version of the server; the hashes of OpenAPI documents depend on it, so that clients fetch them again
        """
        types = built_in_types()
        cache = ProtobufCache(ProtobufEncoder(types))
        self.responses = ResponseConverter(find_route, cache, now)
        self.request_bodies = RequestBodies(find_route, ProtobufDecoder(types))
        self.field_warnings = FieldWarnings(find_route)
        self.discovery = DiscoveryDocuments(registry, cache.encoder)
        self.openapi = OpenApi(registry, types, installed_descriptions(), build=build)
