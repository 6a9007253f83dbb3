"""In which form a client wants its answer: what its Accept header says, and what comes of it.

Source: apiserver pkg/endpoints/handlers/negotiation/negotiate.go (v1.36). Answers are JSON, never protobuf or CBOR: all
clients of Kubernetes that like those better take JSON as well.
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
    """What else an answer can be turned into: kinds of one group, in these versions."""

    group: str
    versions: tuple[str, ...]
    kinds: tuple[str, ...]


OF_OBJECTS = Offer("meta.k8s.io", ("v1", "v1beta1"), ("Table", "PartialObjectMetadata", "PartialObjectMetadataList"))
OF_DISCOVERY = Offer("apidiscovery.k8s.io", ("v2",), ("APIGroupDiscoveryList",))

_ANY_JSON = {JSON, "application/*", "*/*"}


@lru_cache(maxsize=256)
def negotiate(accept: str, offer: Offer) -> Form:
    """The first form in the header that can be served. Raises StatusError (406) if there is none.

    JSON as it is can always be had.

    Quality values are not weighed: clients of Kubernetes send what they like best first.
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
