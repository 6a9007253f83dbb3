"""The form of a response, negotiated by the Accept header.

Source: apiserver pkg/endpoints/handlers/negotiation/negotiate.go (v1.36). Responses are JSON, never protobuf or CBOR:
every client of Kubernetes that prefers those accepts JSON too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from runtime.apiserver.errors.status_errors import StatusError

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"


class Form(NamedTuple):
    """kind: "" for the object itself, else "Table", "PartialObjectMetadata", "PartialObjectMetadataList" or
    "APIGroupDiscoveryList"; version: of that kind.
    """

    kind: str = ""
    version: str = ""


AS_IT_IS = Form()


class Offer(NamedTuple):
    """Kinds of one group, in these versions, that a response can be converted to."""

    group: str
    versions: tuple[str, ...]
    kinds: tuple[str, ...]


OF_OBJECTS = Offer("meta.k8s.io", ("v1", "v1beta1"), ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"))
OF_DISCOVERY = Offer("apidiscovery.k8s.io", ("v2",), ("APIGroupDiscoveryList",))

_ANY_JSON = {JSON, "application/*", "*/*"}


@lru_cache(maxsize=256)
def negotiate(accept: str, offer: Offer) -> Form:
    """Returns the first form in the header that can be served; plain JSON always can. Raises StatusError (406).

    Quality values are ignored: clients of Kubernetes list the forms in order of preference.
    """
    ranges = [text.strip() for text in accept.split(",") if text.strip()]
    for media_range in ranges or ["*/*"]:
        type_, *rest = (piece.strip() for piece in media_range.split(";"))
        if type_.lower() not in _ANY_JSON:
            continue
        parameters = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        kind = parameters.get("as", "")
        if not kind:
            return AS_IT_IS
        version = parameters.get("v", "")
        if kind in offer.kinds and parameters.get("g") == offer.group and version in offer.versions:
            return Form(kind, version)
    raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {JSON}")
