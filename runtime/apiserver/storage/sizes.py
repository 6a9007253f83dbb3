"""Size limits of stored objects: etcd's limits, with kube-apiserver's texts.

kube-apiserver stores built-in kinds as protobuf and custom kinds as JSON. This server stores all objects as JSON, which
is longer, so the size of a built-in object whose JSON exceeds the limit is measured in protobuf.

Source: etcd server/embed/config.go (DefaultMaxRequestBytes), client/v3/options.go (defaultMaxCallSendMsgSize);
apiserver pkg/endpoints/handlers/rest.go (isTooLargeError; v1.36).
"""

from __future__ import annotations

from functools import cache

import orjson

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.schema.nesting import check_nesting
from kcm.runtime.apiserver.schema.protobuf import UnknownTypeError
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder
from kcm.runtime.schema.api_types import built_in_types

MOST_STORED = 3 * 512 * 1024  # bytes of one request to etcd
MOST_SENT = 2 * 1024 * 1024  # bytes of one message that kube-apiserver sends to etcd
MOST_IN_JSON = 6 * MOST_STORED  # a character of a string can take six bytes in JSON, but only one in protobuf


class TooLargeError(StatusError):
    """An object exceeds etcd's size limit. As upstream, the Status has no reason."""

    def __init__(self, size: int = 0) -> None:
        """Select the error text of etcd or of its client, depending on the size.

        size: size of the object in bytes; 0 if it is unknown
        """
        text = "etcdserver: request is too large"
        if size > MOST_SENT:
            text = (
                "rpc error: code = ResourceExhausted desc = "
                f"trying to send message larger than max ({size} vs. {MOST_SENT})"
            )
        found = status_errors.without_reason(text)
        super().__init__(found.code, found.reason, found.message)


def check_size(obj: Object, raw: bytes) -> None:
    """Raise TooLargeError if the object is too large to be stored.

    raw: the object as JSON
    """
    if len(raw) > MOST_STORED:
        size = _stored_size(obj, raw)
        if size > MOST_STORED:
            raise TooLargeError(size)


def check_draft(obj: Object) -> None:
    """Check the size of an object between two mutating policies or webhooks.

    Raises TooLargeError, and ValueError if the object is nested too deeply.
    """
    try:
        raw = orjson.dumps(obj)
    except TypeError as err:
        raise ValueError(str(err)) from err
    if len(raw) > MOST_IN_JSON:
        raise TooLargeError(len(raw))
    check_nesting(obj, raw)


def _stored_size(obj: Object, raw: bytes) -> int:
    try:
        return len(_encoder().message(obj, obj.get("apiVersion", ""), obj["kind"]))
    except (
        UnknownTypeError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ):  # a custom kind, or not representable in protobuf
        return len(raw)


@cache
def _encoder() -> ProtobufEncoder:
    return ProtobufEncoder(built_in_types())
