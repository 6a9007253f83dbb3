"""Request bodies: YAML and protobuf are converted to JSON, so that the core sees JSON only."""

from __future__ import annotations

import orjson
import yaml

from protocols.messages.commands import PatchType
from runtime.apiserver.errors import status_errors
from runtime.apiserver.http.negotiation import JSON, PROTOBUF, YAML
from runtime.apiserver.schema.protobuf import ProtobufDecoder, UnknownType

_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """The safe loader, except that times stay text, as in Kubernetes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def json_body(method: str, media_type: str, body: bytes, protobuf: ProtobufDecoder) -> bytes:
    """Returns the body as JSON. media_type: without parameters, "" for none.

    Raises StatusError: 415 on a type that the method does not take (types of patches are not looked at) or a kind that
    cannot be had in protobuf, 400 on what cannot be read.
    """
    if not body:
        return body
    if method == "PATCH":
        return _from_yaml(body) if media_type == PatchType.APPLY else body
    if media_type in ("", JSON):
        return body
    if media_type == YAML:
        return _from_yaml(body)
    if media_type == PROTOBUF:
        return _from_protobuf(body, protobuf)
    raise status_errors.unsupported_media_type(media_type, (JSON, YAML, PROTOBUF))


def _from_protobuf(body: bytes, protobuf: ProtobufDecoder) -> bytes:
    try:
        return orjson.dumps(protobuf.decode(body))
    except UnknownType as err:
        raise status_errors.unsupported_media_type(PROTOBUF, (JSON, YAML)) from err
    except ValueError as err:
        raise status_errors.bad_request(f"error decoding {PROTOBUF}: {err}") from err


def _from_yaml(body: bytes) -> bytes:
    if body.lstrip()[:1] == b"{":
        return body  # most clients send JSON, which is YAML; broken JSON is refused where it is decoded
    try:
        document = yaml.load(body, _Loader)
        return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)
    except (yaml.YAMLError, TypeError, ValueError, RecursionError) as err:
        raise status_errors.bad_request(f"error converting YAML to JSON: {err}") from err
