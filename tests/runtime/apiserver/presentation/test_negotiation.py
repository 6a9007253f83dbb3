import pytest

from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.presentation.negotiation import (
    OF_CUSTOM_OBJECTS,
    OF_DISCOVERY,
    OF_OBJECTS,
    PLAIN_JSON,
    PROTOBUF,
    Form,
    negotiate,
)

IN_PROTOBUF = Form(media_type=PROTOBUF)
KUBECTL_GET = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
KUBECTL_DISCOVERY = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
METADATA_INFORMER = (
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)


@pytest.mark.parametrize(
    "accept, form",
    [
        ("", PLAIN_JSON),
        ("*/*", PLAIN_JSON),
        ("application/json", PLAIN_JSON),
        ("application/json;q=0.9", PLAIN_JSON),
        ("Application/JSON", PLAIN_JSON),
        ("application/vnd.kubernetes.protobuf, application/json", IN_PROTOBUF),
        ("application/vnd.kubernetes.protobuf,*/*", IN_PROTOBUF),
        ("application/vnd.kubernetes.protobuf;stream=watch", IN_PROTOBUF),
        ("application/vnd.kubernetes.protobuf;q=0.8, application/json;q=0.9", PLAIN_JSON),
        ("application/json;q=0.8, application/vnd.kubernetes.protobuf", IN_PROTOBUF),
        (
            "*/*, application/vnd.kubernetes.protobuf;q=0.5",
            IN_PROTOBUF,
        ),  # specific media types precede those with a higher quality
        ("application/vnd.kubernetes.protobuf;stream=other, application/json", PLAIN_JSON),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json", PLAIN_JSON),
        ("application/cbor, application/json; q=0.5", PLAIN_JSON),
        (KUBECTL_GET, Form("Table", "v1")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form("Table", "v1beta1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", PLAIN_JSON),
        ("application/json;as=Chart;v=v1;g=meta.k8s.io, application/json", PLAIN_JSON),
        (
            METADATA_INFORMER,
            Form("PartialObjectMetadata", "v1", PROTOBUF),
        ),
        (KUBECTL_DISCOVERY, PLAIN_JSON),
        ("application/json;as=Table;v=v2;g=apidiscovery.k8s.io,application/json", PLAIN_JSON),
    ],
)
def test_first_supported_media_type_is_selected(accept: str, form: Form) -> None:
    assert negotiate(accept, OF_OBJECTS) == form


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata",
        "application/json;v=v1",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    ],
)
def test_unsupported_media_type_is_rejected(accept: str) -> None:
    with pytest.raises(StatusError) as refused:
        negotiate(accept, OF_OBJECTS)
    assert (refused.value.code, refused.value.reason) == (406, "NotAcceptable")


def test_custom_object_has_protobuf_only_for_metadata() -> None:
    assert negotiate("application/vnd.kubernetes.protobuf,application/json", OF_CUSTOM_OBJECTS) == PLAIN_JSON
    assert negotiate(METADATA_INFORMER, OF_CUSTOM_OBJECTS) == Form("PartialObjectMetadata", "v1", PROTOBUF)
    with pytest.raises(StatusError):
        negotiate("application/vnd.kubernetes.protobuf", OF_CUSTOM_OBJECTS)


def test_rejection_lists_the_accepted_media_types() -> None:
    with pytest.raises(StatusError, match=r"accepted: application/json, application/vnd.kubernetes.protobuf$"):
        negotiate("text/html", OF_OBJECTS)
    with pytest.raises(StatusError, match=r"application/vnd.kubernetes.protobuf;stream=watch$"):
        negotiate("text/html", OF_OBJECTS, stream=True)


def test_aggregated_discovery_is_negotiated() -> None:
    assert negotiate(KUBECTL_DISCOVERY, OF_DISCOVERY) == Form("APIGroupDiscoveryList", "v2")
    assert negotiate(KUBECTL_GET, OF_DISCOVERY) == PLAIN_JSON


def test_accept_header_with_too_many_clauses_is_rejected() -> None:
    """Sorting the clauses takes quadratic time."""
    assert negotiate("*/*," * 50 + "a/b," * 49 + "c/d", OF_OBJECTS) == PLAIN_JSON
    with pytest.raises(StatusError, match="more than 100 clauses"):
        negotiate("*/*," * 50 + "a/b," * 50 + "c/d", OF_OBJECTS)
