"""Conversion of request bodies from YAML and protobuf to JSON, the only encoding that the verbs' handlers read."""

from __future__ import annotations

import orjson

from kcm.protocols.messages.commands import PatchType
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.presentation.negotiation import JSON, PROTOBUF, YAML
from kcm.runtime.apiserver.presentation.yaml_bodies import JsonBody, yaml_to_json
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.routing import FindRoute
from kcm.runtime.apiserver.registry.subresources import subresource_of
from kcm.runtime.apiserver.schema.field_validation import STRICT, duplicate_fields, yaml_error
from kcm.runtime.apiserver.schema.protobuf import ProtobufDecoder, UnknownTypeError

LARGEST_REPARSED = 64 * 1024  # bytes; larger JSON bodies are not parsed again as YAML


class RequestBodies:
    """Converter of request bodies. `read` is thread-safe."""

    def __init__(self, find_route: FindRoute, protobuf: ProtobufDecoder) -> None:
        self._find_route, self._protobuf = find_route, protobuf

    def read(self, method: str, media_type: str, body: bytes) -> JsonBody:
        """Convert the body of a request to JSON.

        media_type: media type of the body without parameters; "" if missing

        Raises StatusError: 415 for a media type that the method does not accept (those of patches are not checked here)
        and for a kind without protobuf, 400 for an invalid body.
        """
        if not body:
            return JsonBody(body)
        if method == "PATCH":
            return _from_yaml(body) if media_type == PatchType.APPLY else JsonBody(body)
        if media_type in ("", JSON):
            return JsonBody(body)
        if media_type == YAML:
            return _from_yaml(body)
        if media_type == PROTOBUF:
            return JsonBody(_from_protobuf(body, self._protobuf))
        raise status_errors.unsupported_media_type(media_type, (JSON, YAML, PROTOBUF))

    def refusal(self, method: str, info: RequestInfo, error: StatusError) -> StatusError:
        """Return the error response for an error of `read`: 404 if the path is not served, otherwise the error itself.

        For invalid YAML, the error names the kind that the path expects.
        """
        route = self._find_route(info)
        if route is None:
            return status_errors.no_such_path()
        if isinstance(error, InvalidYamlError) and method != "PATCH":
            other = subresource_of(route.subresource).kind if route.subresource else None
            return error.of_kind(route.definition.kind if other is None else other.kind)
        return error


def _from_protobuf(body: bytes, protobuf: ProtobufDecoder) -> bytes:
    try:
        return orjson.dumps(protobuf.decode(body))
    except UnknownTypeError as err:
        raise status_errors.unsupported_media_type(PROTOBUF, (JSON, YAML)) from err
    except ValueError as err:
        raise status_errors.bad_request(f"error decoding {PROTOBUF}: {err}") from err


def is_yaml(method: str, media_type: str, body: bytes) -> bool:
    """Report whether the body must be converted from YAML, which is slow.

    Most clients that declare YAML send JSON, which needs no conversion.
    """
    declared = media_type == (PatchType.APPLY if method == "PATCH" else YAML)
    return declared and not _is_json(body)


def _is_json(body: bytes) -> bool:
    """Report whether the body is a JSON object.

    A first character "{" is not enough, as a YAML flow mapping may begin like JSON, for example one with a trailing
    comma.
    """
    if body.lstrip()[:1] != b"{":
        return False
    try:
        orjson.loads(body)
    except ValueError:
        return False
    return True


def _from_yaml(body: bytes) -> JsonBody:
    if _is_json(body):
        return JsonBody(body)
    try:
        return yaml_to_json(body)
    except ValueError as err:
        raise InvalidYamlError(str(err), body) from err


class InvalidYamlError(StatusError):
    """Error for a body that is not valid YAML, or has values that JSON cannot express (400)."""

    def __init__(self, why: str, body: bytes) -> None:
        self._why, self._body = why, body
        found = status_errors.bad_request(f"error decoding YAML: error converting YAML to JSON: {why}")
        super().__init__(found.code, found.reason, found.message)

    def of_kind(self, kind: str) -> StatusError:
        """Return upstream's error for a body that should be an object of this built-in kind."""
        start = f"{self._body[:30].hex()}{' ...' if len(self._body) > 30 else ''}"
        return status_errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): {self._why} ({start})"
        )


def duplicate_key_warnings(read: JsonBody, directive: str) -> list[str]:
    """Return warnings about duplicate keys in the body of a server-side apply, which may be JSON or YAML.

    directive: value of ?fieldValidation

    Raises StatusError (400) instead if the directive is "Strict".
    """
    repeated = read.repeated
    if not repeated and (fields := duplicate_fields(read.json)):
        # JSON is YAML too, so upstream's warnings name lines. Parsing a long document as YAML would block the server,
        # so the warnings about it name paths instead.
        try:
            repeated = yaml_to_json(read.json).repeated if len(read.json) <= LARGEST_REPARSED else ()
        except ValueError:  # nested too deeply
            repeated = ()
        repeated = repeated or tuple(f'duplicate field "{path}"' for path in fields)
    if repeated and directive == STRICT:
        text = f"error converting YAML to JSON: {yaml_error(repeated)}"
        raise status_errors.bad_request(f"error strict decoding YAML: {text}")
    return list(repeated)
