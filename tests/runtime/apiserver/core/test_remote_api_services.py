"""APIServices of other servers: their condition, and requests for their group versions."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.client.api import Request
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.stores import KeptStore

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
CUSTOM = "v1beta1.custom.metrics.k8s.io"
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
URL = "https://adapter.default.svc:443/apis/custom.metrics.k8s.io/v1beta1"
MERGE = "application/merge-patch+json"
PREFIX = 'service/adapter in "default"'


def api_service(group: str = "custom.metrics.k8s.io", version: str = "v1beta1", **service: Any) -> Object:
    return {
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "adapter", **service},
        },
    }


def add_service(api: Api, **spec: Any) -> None:
    body = {"metadata": {"name": "adapter"}, "spec": {"ports": [{"port": 443, "targetPort": 6443}], **spec}}
    assert api.create("services", body).status == 201


def add_slice(api: Api, *, ready: bool = True, node: str = "", port: str = "") -> None:
    endpoint: Object = {"addresses": ["10.1.2.3"], "conditions": {"ready": ready}}
    if node:
        endpoint["nodeName"] = node
    body = {
        "metadata": {"name": "adapter-1", "labels": {"kubernetes.io/service-name": "adapter"}},
        "addressType": "IPv4",
        "endpoints": [endpoint],
        "ports": [{"name": port, "port": 6443}],
    }
    assert api.create("endpointslices", body).status == 201


def add_hollow_node(api: Api) -> None:
    api.create("nodes", {"metadata": {"name": "n"}})
    status = {"status": {"nodeInfo": {"containerRuntimeVersion": "hollow://1.36.0"}}}
    assert api.send("PATCH", api.path("nodes", "n", "status"), status, type_=MERGE).status == 200


def available(api: Api, name: str = CUSTOM) -> tuple[str, str, str]:
    (condition,) = api.send("GET", f"{SERVICES}/{name}").obj["status"]["conditions"]
    return condition["status"], condition["reason"], condition["message"]


def status_of(api: Api, path: str) -> int:
    return api.server.handle(Request(method="GET", path=path)).status


def test_condition_follows_the_service_and_its_endpoints() -> None:
    api = Api()
    assert api.send("POST", SERVICES, api_service()).status == 201
    assert available(api) == ("False", "ServiceNotFound", f"{PREFIX} is not present")
    since = api.send("GET", f"{SERVICES}/{CUSTOM}").obj["status"]["conditions"][0]["lastTransitionTime"]
    api.advance(5.0)
    add_service(api)
    assert available(api) == ("False", "EndpointsNotFound", f"cannot find endpointslices for {PREFIX}")
    add_slice(api, ready=False)
    text = f'endpointslices for {PREFIX} have no addresses with port name ""'
    assert available(api) == ("False", "MissingEndpoints", text)
    condition = api.send("GET", f"{SERVICES}/{CUSTOM}").obj["status"]["conditions"][0]
    assert condition["lastTransitionTime"] == since, "the status has not changed"
    path = api.path("endpointslices", "adapter-1")
    assert api.send("PATCH", path, {"ports": [{"name": "other", "port": 1}]}, type_=MERGE).status == 200
    assert available(api)[1] == "MissingEndpoints"
    api.delete("endpointslices", "adapter-1")
    add_slice(api)
    assert available(api) == (
        "False",
        "FailedDiscoveryCheck",
        f"failing or missing response from {URL}: this server forwards no requests to other servers",
    )
    api.delete("services", "adapter")
    assert available(api)[1] == "ServiceNotFound"


def test_service_without_the_port_is_named() -> None:
    api = Api()
    add_service(api)
    api.send("POST", SERVICES, api_service(port=6443))
    assert available(api) == ("False", "ServicePortError", f"{PREFIX} is not listening on port 6443")


def test_hollow_pods_fail_discovery() -> None:
    api = Api()
    add_hollow_node(api)
    add_service(api)
    add_slice(api, node="n")
    api.send("POST", SERVICES, api_service())
    status, reason, message = available(api)
    assert (status, reason) == ("False", "FailedDiscoveryCheck")
    assert message.endswith('the pods of service "default/adapter" are hollow and serve no requests')


@pytest.mark.parametrize(
    "path",
    [
        "/apis/custom.metrics.k8s.io/v1beta1/nodes",
        "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/x/metric",
        "/apis/custom.metrics.k8s.io/v1beta1/anything",
    ],
)
def test_requests_for_another_server_are_unavailable(path: str) -> None:
    api = Api()
    assert status_of(api, path) == 404
    api.send("POST", SERVICES, api_service())
    assert status_of(api, path) == 503
    api.send("DELETE", f"{SERVICES}/{CUSTOM}")
    assert status_of(api, path) == 404


def test_api_services_are_unavailable_after_a_restart() -> None:
    store = KeptStore()
    Api(store).send("POST", SERVICES, api_service())
    assert status_of(Api(store), "/apis/custom.metrics.k8s.io/v1beta1/nodes") == 503


def test_built_in_metrics_stay_available_with_an_api_service_of_a_user() -> None:
    api = Api(resources=(*BUILT_IN, *AGGREGATED))
    api.send("POST", SERVICES, api_service("metrics.k8s.io"))
    assert available(api, "v1beta1.metrics.k8s.io") == ("True", "Passed", "all checks passed")
    assert status_of(api, PODS) == 200


def test_ready_hollow_metrics_server_is_replaced_by_built_in_metrics() -> None:
    api = Api(stand_ins=AGGREGATED)
    assert status_of(api, PODS) == 404
    api.send("POST", SERVICES, api_service("metrics.k8s.io"))
    assert status_of(api, PODS) == 503
    add_hollow_node(api)
    add_service(api)
    add_slice(api, node="n")
    assert available(api, "v1beta1.metrics.k8s.io") == ("True", "Passed", "all checks passed")
    assert status_of(api, PODS) == 200
    api.delete("endpointslices", "adapter-1")
    assert available(api, "v1beta1.metrics.k8s.io")[:2] == ("False", "EndpointsNotFound")
    assert status_of(api, PODS) == 503
    api.send("DELETE", f"{SERVICES}/v1beta1.metrics.k8s.io")
    assert status_of(api, PODS) == 404


def test_metrics_service_of_a_server_with_built_in_metrics_is_removed_without_them() -> None:
    store = KeptStore()
    name = "v1beta1.metrics.k8s.io"
    Api(store, resources=(*BUILT_IN, *AGGREGATED)).server.publish_address("127.0.0.1", 6443)
    api = Api(store, stand_ins=AGGREGATED)
    api.server.publish_address("127.0.0.1", 6443)
    assert api.send("GET", f"{SERVICES}/{name}").status == 404
    api.send("POST", SERVICES, api_service("metrics.k8s.io"))
    api.server.publish_address("127.0.0.1", 6443)
    assert api.send("GET", f"{SERVICES}/{name}").status == 200, "that of a client stays"


def test_local_api_service_is_available() -> None:
    api = Api()
    local = {**api_service(), "metadata": {"name": "v1.example.com"}}
    local["spec"] = {"group": "example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    assert api.send("POST", SERVICES, local).status == 201
    assert available(api, "v1.example.com")[:2] == ("True", "Local")
