"""Content negotiation: the form of a response, from the Accept header.

Source: apiserver pkg/endpoints/handlers/negotiation/negotiate.go, pkg/endpoints/handlers/rest.go, RequestScope;
github.com/munnerz/goautoneg (v1.36). Difference: no responses in YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from kcm.protocols.bounded_cache import bounded_cache, first_size
from kcm.runtime.apiserver.errors.status_errors import StatusError, bad_request

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"


MOST_CLAUSES = 100  # maximum number in a header


class Form(NamedTuple):
    """Negotiated form of a response.

    kind: "" for the object itself, otherwise the kind that it is converted to: "Table", "PartialObjectMetadata",
        "PartialObjectMetadataList" or "APIGroupDiscoveryList"
    version: version of that kind
    media_type: JSON or PROTOBUF
    """

    kind: str = ""
    version: str = ""
    media_type: str = JSON


PLAIN_JSON = Form()


class Offer(Struct, frozen=True, kw_only=True, eq=False):
    """Forms in which the server can send a response.

    Offers are compared by identity, so that they are fast keys of the cache of negotiated forms.

    media_types: media types for the object itself
    group: group of the kinds that the object can be converted to
    versions: versions of those kinds
    kinds: media types by kind
    """

    media_types: tuple[str, ...]
    group: str = ""
    versions: tuple[str, ...] = ()
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_BOTH = (JSON, PROTOBUF)
_OF_META = {"Table": (JSON,), "PartialObjectMetadata": _BOTH, "PartialObjectMetadataList": _BOTH}
OF_OBJECTS = Offer(media_types=_BOTH, group="meta.k8s.io", versions=("v1", "v1beta1"), kinds=_OF_META)
# Custom resources have no protobuf encoding, as their fields have no numbers.
OF_CUSTOM_OBJECTS = Offer(media_types=(JSON,), group="meta.k8s.io", versions=("v1", "v1beta1"), kinds=_OF_META)
# Reviews have no table columns.
OF_REVIEWS = Offer(
    media_types=_BOTH,
    group="meta.k8s.io",
    versions=("v1", "v1beta1"),
    kinds={kind: media_types for kind, media_types in _OF_META.items() if kind != "Table"},
)
OF_DISCOVERY = Offer(
    media_types=_BOTH,
    group="apidiscovery.k8s.io",
    versions=("v2",),
    kinds={"APIGroupDiscoveryList": _BOTH},
)
OF_ERRORS = Offer(media_types=_BOTH)


class _Clause(NamedTuple):
    """Clause of an Accept header, such as "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.9".

    quality: the parameter q, by which clauses are ordered; 1 if missing
    """

    type: str
    subtype: str
    parameters: Mapping[str, str]
    quality: float

    def takes(self, media_type: str) -> bool:
        """Report whether the clause matches a media type."""
        type_, _, subtype = media_type.partition("/")
        return (self.type == type_ and self.subtype in (subtype, "*")) or (self.type == self.subtype == "*")


def negotiate(accept: str, offer: Offer, *, stream: bool = False) -> Form:
    """Return the client's preferred form among those that the server offers.

    accept: value of the Accept header; "" for JSON
    stream: whether the response is a watch

    Raises StatusError: 406 if no offered form is accepted, 400 for too many clauses.
    """
    return _negotiated(accept, offer, stream) if accept else PLAIN_JSON


@bounded_cache(1024, size=first_size)
def _negotiated(accept: str, offer: Offer, stream: bool) -> Form:
    for clause in _clauses(accept):
        for media_type in _BOTH:
            if clause.takes(media_type):
                form = _accepted(clause.parameters, offer, media_type)
                if form is not None:
                    return form
    shown = ", ".join(f"{media_type};stream=watch" if stream else media_type for media_type in _BOTH)
    raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {shown}")


def _accepted(parameters: Mapping[str, str], offer: Offer, media_type: str) -> Form | None:
    """Return the form that a clause with these parameters requests; None if it is not offered in this media type."""
    if parameters.get("stream", "") not in ("", "watch"):
        return None
    if parameters.get("sv", "") not in ("", "v1"):
        return None
    if not parameters.keys() & {"as", "g", "v"}:
        return Form(media_type=media_type) if media_type in offer.media_types else None
    kind, version = parameters.get("as", ""), parameters.get("v", "")
    if parameters.get("g") != offer.group or version not in offer.versions:
        return None
    return Form(kind, version, media_type) if media_type in offer.kinds.get(kind, ()) else None


def ranges(accept: str) -> list[tuple[str, str]]:
    """Return the media ranges of an Accept header as (type, subtype), the preferred first. Either may be "*"."""
    return [(clause.type, clause.subtype) for clause in _clauses(accept)]


def _clauses(accept: str) -> list[_Clause]:
    """Return the well-formed clauses of an Accept header, the preferred ones first.

    Raises StatusError (400) if the header has more than MOST_CLAUSES clauses.
    """
    if accept.count(",") >= MOST_CLAUSES:  # sorting n clauses takes n² steps
        raise bad_request(f"the Accept header has more than {MOST_CLAUSES} clauses")
    found: list[_Clause] = []
    for text in accept.split(","):
        range_, *rest = text.split(";")
        pieces = [piece.strip().lower() for piece in range_.split("/")]
        if pieces == ["*"]:
            pieces = ["*", "*"]
        if len(pieces) != 2 or not pieces[1]:
            continue
        pairs = [piece.split("=") for piece in rest]
        parameters = {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2 and pair[1]}
        quality = _quality(parameters.pop("q", "1"))
        _insert(found, _Clause(pieces[0], pieces[1], parameters, quality))
    return found


def _insert(found: list[_Clause], clause: _Clause) -> None:
    """Insert a clause before all clauses of lower precedence.

    The search begins at the end, as in goautoneg: the comparison is not transitive, so the direction affects the
    result.
    """
    at = len(found)
    while at and _goes_before(clause, found[at - 1]):
        at -= 1
    found.insert(at, clause)


def _goes_before(clause: _Clause, other: _Clause) -> bool:
    return (
        clause.quality > other.quality
        or (clause.type != "*" and other.type == "*")
        or (clause.subtype != "*" and other.subtype == "*")
    )


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
