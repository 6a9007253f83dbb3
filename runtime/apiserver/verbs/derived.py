"""GET of objects that are computed from other objects when they are read: one object, or a list without pages.

Such objects describe the current state, so a resourceVersion is neither accepted nor returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson

from kcm.protocols.objects import Key, Object, decode_object, encode_object
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.derived import Derived, Reading
from kcm.runtime.apiserver.storage.selection import parse_selection
from kcm.runtime.apiserver.storage.state import to_read
from kcm.runtime.apiserver.verbs.read import ListResponse
from kcm.runtime.client.api import Response

MOST_WARNINGS = 10  # each warning is a header of the response


def get_derived(cluster: Cluster, call: RoutedRequest, derived: Derived) -> Response:
    source = cluster.state.get(derived.source, call.key)
    if source is None:
        plural, _, group = derived.source.partition(".")
        raise status_errors.not_found(group, plural, call.route.name)
    warnings: list[str] = []
    made = next(_made(cluster, derived, [decode_object(source.raw)], warnings), None)
    if made is None:
        raise status_errors.not_found(call.definition.group, derived.name, call.key)
    return Response(status=200, body=encode_object(made), warnings=tuple(warnings))


def list_derived(cluster: Cluster, call: RoutedRequest, derived: Derived) -> Response:
    definition, collection = call.definition, cluster.state.collection(derived.source)
    selection = parse_selection(definition, call.query)
    keys = filter(selection.has_key, collection.keys(call.route.namespace))
    records = map(collection.records.__getitem__, keys)
    # Decoded one by one: thousands of decoded objects at a time would keep the garbage collector busy.
    sources = (decode_object(record.raw) for record in records if selection.labels.matches(record.labels))
    warnings: list[str] = []
    items = [encode_object(obj) for obj in _made(cluster, derived, sources, warnings)]
    head = {"kind": definition.list_kind, "apiVersion": definition.api_version, "metadata": dict[str, str]()}
    body = b"".join((orjson.dumps(head)[:-1], b',"items":[', b",".join(items), b"]}"))
    return ListResponse(status=200, body=body, head=head, items=items, warnings=tuple(warnings))


def _made(cluster: Cluster, derived: Derived, sources: Iterable[Object], warnings: list[str]) -> Iterator[Object]:
    def find(storage: str, key: Key) -> Object | None:
        record = cluster.state.get(storage, key)
        return None if record is None else to_read(record.raw)

    def warn(text: str) -> None:
        if len(warnings) < MOST_WARNINGS:
            warnings.append(text)

    reading = Reading(now=cluster.clock.now(), objects=cluster.objects, find=find, warn=warn)
    return derived.make(sources, reading)
