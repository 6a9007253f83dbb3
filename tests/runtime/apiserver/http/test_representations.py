from collections.abc import Generator
from typing import Any

import orjson
import pytest

from kcm.runtime.apiserver.kinds.core import pod as pod_kind
from kcm.runtime.apiserver.presentation.negotiation import JSON, PROTOBUF, Form
from kcm.runtime.apiserver.presentation.protobuf_cache import ProtobufCache
from kcm.runtime.apiserver.presentation.representations import Representation
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder
from kcm.runtime.apiserver.verbs.read import ListResponse
from kcm.runtime.client.api import Response
from kcm.runtime.schema.api_types import built_in_types
from tests.support.objects import pod

TABLE, PARTIAL = Form("Table", "v1"), Form("PartialObjectMetadata", "v1")


def running(name: str) -> dict[str, Any]:
    return pod(name, namespace="", metadata={"resourceVersion": "5"}, status={"phase": "Running"})


def whole(name: str) -> dict[str, Any]:
    return {"kind": "Pod", "apiVersion": "v1", **running(name)}


def representation(form: Form, include: str = "Metadata") -> Representation:
    cache = ProtobufCache(ProtobufEncoder(built_in_types()))
    printer = pod_kind.RESOURCE.printer
    return Representation(form, include=include, now=lambda: 0.0, printer=printer, cache=cache)


def body(rendering: Representation, document: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = orjson.loads(rendering.body(Response(status=200, body=orjson.dumps(document))))
    return shown


def pod_list(*items: dict[str, Any]) -> dict[str, Any]:
    meta = {"resourceVersion": "9", "continue": "abc"}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": list(items)}


def test_a_list_becomes_a_table_with_the_lists_metadata() -> None:
    shown = body(representation(TABLE), pod_list(running("a"), running("b")))
    assert (shown["kind"], shown["metadata"]) == ("Table", {"resourceVersion": "9", "continue": "abc"})
    assert [row["cells"][0] for row in shown["rows"]] == ["a", "b"]
    assert shown["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize("media_type", [JSON, PROTOBUF])
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("kind", ["Table", "PartialObjectMetadata", "PartialObjectMetadataList"])
def test_list_rendered_in_steps_equals_list_rendered_at_once(kind: str, version: str, media_type: str) -> None:
    form = Form(kind, version, media_type)
    if kind == "Table" and media_type == PROTOBUF:
        pytest.skip("a table is never encoded in protobuf")
    document = pod_list(running("a"), running("b"))
    head = {field: value for field, value in document.items() if field != "items"}
    items = [orjson.dumps(item) for item in document["items"]]
    at_once = representation(form).body(Response(status=200, body=orjson.dumps(document)))
    steps = representation(form).list_in_steps(ListResponse(status=200, head=head, items=items))
    assert drained(steps) == (at_once, 0 if version == "v1beta1" and media_type == PROTOBUF else 2)


def drained(steps: Generator[None, None, bytes]) -> tuple[bytes, int]:
    """Return the result of a generator, and its number of steps."""
    taken = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, taken
        taken += 1


def test_one_object_becomes_a_table_of_one_row() -> None:
    shown = body(representation(TABLE), whole("a"))
    assert shown["metadata"] == {"resourceVersion": "5"}
    assert [row["cells"][2] for row in shown["rows"]] == ["Running"]


def test_object_in_a_table_row_has_its_api_version_and_kind() -> None:
    shown = body(representation(TABLE, "Object"), pod_list(running("a")))
    assert shown["rows"][0]["object"] == whole("a")


def test_partial_metadata_of_an_object_and_of_a_list() -> None:
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": running("a")["metadata"]}
    assert body(representation(PARTIAL), whole("a")) == partial
    shown = body(representation(PARTIAL), pod_list(running("a")))
    assert (shown["kind"], shown["items"]) == ("PartialObjectMetadataList", [partial])


@pytest.mark.parametrize("form", [TABLE, PARTIAL])
def test_a_status_stays_a_status(form: Form) -> None:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": 404}
    assert body(representation(form), status) == status


def events(rendering: Representation, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    raw = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    return [orjson.loads(line) for line in rendering.lines(raw).splitlines()]


def test_a_watched_table_names_its_columns_once() -> None:
    rendering = representation(TABLE)
    first, second = events(
        rendering, {"type": "ADDED", "object": whole("a")}, {"type": "DELETED", "object": whole("b")}
    )
    assert (first["type"], second["type"]) == ("ADDED", "DELETED")
    assert first["object"]["columnDefinitions"]
    assert second["object"]["columnDefinitions"] is None
    (third,) = events(rendering, {"type": "ADDED", "object": whole("c")})
    assert third["object"]["columnDefinitions"] is None
    assert third["object"]["rows"][0]["cells"][0] == "c"


def test_bookmark_in_a_table_is_a_row_without_name() -> None:
    bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}}
    (event,) = events(representation(TABLE), {"type": "BOOKMARK", "object": bookmark})
    (row,) = event["object"]["rows"]
    assert (row["cells"][0], row["object"]["metadata"]) == ("", {"resourceVersion": "7"})
    assert event["object"]["metadata"] == {"resourceVersion": "7"}


def test_a_bookmark_keeps_its_annotations_as_partial_metadata() -> None:
    meta = {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}
    bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": meta}
    (event,) = events(representation(PARTIAL), {"type": "BOOKMARK", "object": bookmark})
    assert event["object"]["metadata"] == meta


def test_error_event_is_not_converted() -> None:
    error = {"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "code": 410}}
    assert events(representation(TABLE), error) == [error]
