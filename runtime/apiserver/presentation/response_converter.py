"""Conversion of responses to the form that the client accepts: JSON or protobuf; object, Table or metadata."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import orjson
from msgspec.structs import replace

from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import invalid
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.presentation.negotiation import (
    JSON,
    OF_CUSTOM_OBJECTS,
    OF_ERRORS,
    OF_OBJECTS,
    OF_REVIEWS,
    PLAIN_JSON,
    PROTOBUF,
    Form,
    Offer,
    negotiate,
)
from kcm.runtime.apiserver.presentation.protobuf_cache import ProtobufCache
from kcm.runtime.apiserver.presentation.representations import (
    INCLUDES,
    Representation,
    built_in_list_body,
    list_parts,
)
from kcm.runtime.apiserver.presentation.tables import printer_of
from kcm.runtime.apiserver.registry.printers import NAME_AND_CREATION_TIME
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.routing import FindRoute
from kcm.runtime.apiserver.registry.subresources import subresource_of
from kcm.runtime.apiserver.verbs.read import ListResponse
from kcm.runtime.client.api import Response

STREAMED_FROM = 16 * 1024 * 1024  # bytes of a list above which it is sent in parts
# Frequent Accept headers that prefer JSON. They need no negotiation.
_JSON_FIRST = frozenset((b"", b"*/*", b"application/json", b"application/json, */*"))


class ResponseConverter:
    """Converter of responses to the form that the client accepts.

    The parameter `accept` of all methods is the value of the Accept header.
    """

    def __init__(self, find_route: FindRoute, cache: ProtobufCache, now: Callable[[], float]) -> None:
        self._find_route, self._cache, self._now = find_route, cache, now

    def negotiated(self, accept: bytes, info: RequestInfo) -> Form:
        """Return the negotiated form for a request. Raises StatusError (406) if no accepted form is available."""
        if accept in _JSON_FIRST:
            return PLAIN_JSON
        stream = info.verb == "watch"
        form = _negotiated(accept, OF_OBJECTS, stream=stream)
        if form.kind == "Table" and self._is_review(info):
            form = _negotiated(accept, OF_REVIEWS)
        if form.media_type == PROTOBUF and not form.kind and not self._has_protobuf(info):
            return _negotiated(accept, OF_CUSTOM_OBJECTS, stream=stream)
        return form

    def response(self, accept: bytes, info: RequestInfo, response: Response) -> Response:
        """Convert a response to the form that the client accepts.

        Raises StatusError: 406 if no accepted form is available, 400 for an invalid ?includeObject.
        """
        if response.status >= 400:
            return self.error(accept, response)
        if accept in _JSON_FIRST:
            return response
        form = self.negotiated(accept, info)
        if form == PLAIN_JSON or response.content_type != JSON:
            return response
        representation = self.representation(info, form)
        return replace(response, body=representation.body(response), content_type=form.media_type)

    def in_steps(self, accept: bytes, info: RequestInfo, response: Response) -> Generator[None, None, Response]:
        """Convert a response as `response` does, but yield after each object of a list.

        Other requests can run between the steps.
        """
        if not isinstance(response, ListResponse):
            return self.response(accept, info, response)
        form = self.negotiated(accept, info)
        if form == PLAIN_JSON:
            route = self._find_route(info)
            is_custom = route is None or route.definition.dynamic
            return response if is_custom else replace(response, body=built_in_list_body(response))
        body = yield from self.representation(info, form).list_in_steps(response)
        return Response(status=response.status, body=body, content_type=form.media_type)

    def list_parts(self, accept: bytes, info: RequestInfo, response: Response) -> Iterator[bytes] | None:
        """Return the body of a long list in parts, if the client accepts plain JSON; None for all other responses."""
        if not isinstance(response, ListResponse) or len(response.body) <= STREAMED_FROM:
            return None
        if self.negotiated(accept, info) != PLAIN_JSON:
            return None
        route = self._find_route(info)
        return list_parts(response, is_custom=route is None or route.definition.dynamic)

    def error(self, accept: bytes, response: Response) -> Response:
        """Convert an error response (Status) to protobuf if the client prefers protobuf."""
        if b"protobuf" not in accept or response.content_type != JSON:
            return response
        try:
            form = _negotiated(accept, OF_ERRORS)
        except StatusError:
            return response
        if form.media_type != PROTOBUF:
            return response
        body = self._cache.encoder.encode(orjson.loads(response.body))
        return replace(response, body=body, content_type=PROTOBUF)

    def representation(self, info: RequestInfo, form: Form) -> Representation:
        """Return the converter for a request. Raises StatusError (400) for an invalid ?includeObject."""
        include = info.query.get("includeObject") or "Metadata"
        if include not in INCLUDES and form.kind == "Table":
            detail = "must be 'Metadata', 'Object', 'None', or empty"
            wrong = invalid("includeObject", include, detail)
            raise status_errors.bad_request(f"Unable to convert to Table as requested: {wrong}")
        route = self._find_route(info)
        printer = NAME_AND_CREATION_TIME if route is None else printer_of(route.definition, route.subresource)
        return Representation(form, include=include, now=self._now, printer=printer, cache=self._cache)

    def _is_review(self, info: RequestInfo) -> bool:
        route = self._find_route(info)
        return route is not None and route.definition.strategy.review is not None

    def _has_protobuf(self, info: RequestInfo) -> bool:
        route = self._find_route(info)
        if route is None:
            return True  # the error response (404) is available in protobuf
        if route.subresource and subresource_of(route.subresource).kind is not None:
            return True
        return self._cache.encoder.has_kind(route.definition.api_version, route.definition.kind)


def _negotiated(accept: bytes, offer: Offer, *, stream: bool = False) -> Form:
    return negotiate(accept.decode(errors="replace"), offer, stream=stream)
