import pytest

from runtime.apiserver.errors.status_errors import StatusError
from runtime.apiserver.http.negotiation import AS_IT_IS, OF_DISCOVERY, OF_OBJECTS, Form, negotiate

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
        ("", AS_IT_IS),
        ("*/*", AS_IT_IS),
        ("application/json", AS_IT_IS),
        ("application/json;q=0.9", AS_IT_IS),
        ("Application/JSON", AS_IT_IS),
        ("application/vnd.kubernetes.protobuf, application/json", AS_IT_IS),
        ("application/vnd.kubernetes.protobuf,*/*", AS_IT_IS),
        ("application/cbor, application/json; q=0.5", AS_IT_IS),
        (KUBECTL_GET, Form("Table", "v1")),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Form("Table", "v1beta1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", AS_IT_IS),
        ("application/json;as=Chart;v=v1;g=meta.k8s.io, application/json", AS_IT_IS),
        (
            METADATA_INFORMER,
            Form("PartialObjectMetadata", "v1"),
        ),
        (KUBECTL_DISCOVERY, AS_IT_IS),
        ("application/json;as=Table;v=v2;g=apidiscovery.k8s.io,application/json", AS_IT_IS),
    ],
)
def test_the_first_form_that_can_be_served_is_taken(accept: str, form: Form) -> None:
    assert negotiate(accept, OF_OBJECTS) == form


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf",
        "text/html",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    ],
)
def test_what_cannot_be_served_is_refused(accept: str) -> None:
    with pytest.raises(StatusError) as refused:
        negotiate(accept, OF_OBJECTS)
    assert (refused.value.code, refused.value.reason) == (406, "NotAcceptable")


def test_discovery_is_aggregated_where_it_can_be() -> None:
    assert negotiate(KUBECTL_DISCOVERY, OF_DISCOVERY) == Form("APIGroupDiscoveryList", "v2")
    assert negotiate(KUBECTL_GET, OF_DISCOVERY) == AS_IT_IS
