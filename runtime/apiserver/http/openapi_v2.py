"""Handler of /openapi/v2, as JSON or protobuf.

The document is generated on a thread of its own at the first request, because this takes half a second.

Source: kube-openapi pkg/handler/handler.go (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from kcm.runtime.apiserver.http.api_request import ApiRequest
from kcm.runtime.apiserver.presentation.negotiation import JSON, ranges
from kcm.runtime.apiserver.presentation.openapi.documents import OpenApi
from kcm.runtime.apiserver.presentation.openapi.v2 import Document
from kcm.runtime.client.api import Response

OPENAPI_V2 = "/openapi/v2"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Media types in Accept headers; the last contains an invalid character, as upstream's.
MEDIA_TYPES = (JSON, PROTOBUF, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")


class OpenApiV2:
    """Handler of /openapi/v2. All methods run on the event loop's thread."""

    def __init__(self, openapi: OpenApi, release: str, *, failed: Callable[[ApiRequest, Exception], None]) -> None:
        """Create a handler.

        release: Kubernetes release, such as "1.36"
        failed: responds to a request with an error
        """
        self._openapi, self._release, self._failed = openapi, release, failed
        self._newest: tuple[str, Document] | None = None
        self._pending: dict[str, asyncio.Future[Document]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="openapi")

    def respond(self, request: ApiRequest) -> None:
        type_ = _accepted(request.headers.get(b"accept", b"").decode(errors="replace"))
        if not type_:
            request.respond(Response(status=406, content_type="text/plain; charset=utf-8"))
            return
        version, make = self._openapi.everything()
        if self._newest is not None and self._newest[0] == version:
            self._send(request, type_, self._newest[1])
            return
        document_future = self._pending.get(version)
        if document_future is None:
            loop = asyncio.get_running_loop()
            document_future = self._pending[version] = loop.run_in_executor(self._thread, make, self._release)
        document_future.add_done_callback(lambda made: self._finish(request, type_, version, made))

    def _finish(self, request: ApiRequest, type_: str, version: str, made: asyncio.Future[Document]) -> None:
        self._pending.pop(version, None)
        try:
            document = made.result()
        except Exception as error:
            self._failed(request, error)
            return
        self._newest = version, document
        self._send(request, type_, document)

    def _send(self, request: ApiRequest, type_: str, document: Document) -> None:
        lines = b'Etag: "%b"\r\nVary: Accept\r\n' % document.etag.encode()
        known = request.headers.get(b"if-none-match", b"").decode(errors="replace")
        if document.etag in {tag.strip().removeprefix("W/").strip('"') for tag in known.split(",")}:
            request.respond(Response(status=304, content_type=type_), lines=lines, as_it_is=True)
            return
        body = document.json() if type_ == JSON else document.protobuf()
        request.respond(Response(status=200, body=body, content_type=type_), lines=lines, as_it_is=True)


def _accepted(accept: str) -> str:
    """Return the media type of the response, "" if the client accepts none of MEDIA_TYPES.

    accept: the Accept header
    """
    for type_, subtype in ranges(accept or "*/*"):
        for media_type in MEDIA_TYPES:
            if type_ in ("application", "*") and subtype in (media_type.partition("/")[2], "*"):
                return JSON if media_type == JSON else PROTOBUF
    return ""
