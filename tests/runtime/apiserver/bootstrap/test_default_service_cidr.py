"""The default ServiceCIDR. Cases: kubernetes v1.36 default_servicecidr_controller_test.go."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.stores import KeptStore

CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"
DEFAULT = f"{CIDRS}/kubernetes"
MERGE = "application/merge-patch+json"
BOTH = ("10.96.0.0/16", "fd00::/112")


def served(store: KeptStore | None = None, **settings: Any) -> Api:
    api = Api(store or KeptStore(), **settings)
    api.server.publish_address("127.0.0.1", 6443)
    return api


def ready(api: Api) -> Object:
    (condition,) = api.send("GET", DEFAULT).obj["status"]["conditions"]
    return {field: condition[field] for field in ("type", "status", "reason", "message")}


def pass_time(api: Api, seconds: float) -> None:
    api.clock.time += seconds
    api.server.tick(api.clock.time)


def reasons(api: Api) -> list[str]:
    events = api.send("GET", "/api/v1/namespaces/default/events").obj["items"]
    return [event["reason"] for event in events if event["involvedObject"]["kind"] == "ServiceCIDR"]


READY = {"type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready"}


def test_default_service_cidr_has_the_ranges_of_the_server() -> None:
    assert served().send("GET", DEFAULT).obj["spec"] == {"cidrs": ["10.96.0.0/16"]}
    api = served(service_ranges=BOTH)
    assert api.send("GET", DEFAULT).obj["spec"] == {"cidrs": list(BOTH)}
    assert ready(api) == READY


def test_deleted_default_service_cidr_is_created_again() -> None:
    api = served()
    api.send("DELETE", DEFAULT)
    pass_time(api, 10.0)
    assert ready(api) == READY


def test_single_stack_service_cidr_gets_the_second_range() -> None:
    store = KeptStore()
    served(store)
    api = served(store, service_ranges=BOTH)
    assert api.send("GET", DEFAULT).obj["spec"] == {"cidrs": list(BOTH)}
    assert reasons(api) == []


@pytest.mark.parametrize("ranges", [("10.97.0.0/16",), ("10.97.0.0/16", "fd00::/112"), ("fd00::/112",)])
def test_other_ranges_are_reported_once_and_stay(ranges: tuple[str, ...]) -> None:
    store = KeptStore()
    served(store)
    api = served(store, service_ranges=ranges)
    pass_time(api, 60.0)
    assert api.send("GET", DEFAULT).obj["spec"] == {"cidrs": ["10.96.0.0/16"]}
    assert reasons(api) == ["KubernetesDefaultServiceCIDRInconsistent"]
    (event,) = api.send("GET", "/api/v1/namespaces/default/events").obj["items"]
    flags = " ".join(ranges)
    assert event["message"] == (
        f"The default ServiceCIDR [10.96.0.0/16] does not match the controller flag configurations [{flags}]"
    )


@pytest.mark.parametrize(
    ("status", "kept", "reported"),
    [("Unknown", False, []), ("True", True, []), ("False", True, ["Terminating"])],
)
def test_condition_is_set_unless_it_is_true_or_false(status: str, kept: bool, reported: list[str]) -> None:
    api = served()
    given = {"type": "Ready", "status": status, "reason": "Terminating", "message": "in use"}
    body = {"status": {"conditions": [{**given, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    assert api.send("PATCH", f"{DEFAULT}/status", body, type_=MERGE).status == 200
    pass_time(api, 60.0)
    pass_time(api, 60.0)
    assert ready(api) == (given if kept else READY)
    assert reasons(api) == reported


def test_service_cidr_that_is_being_deleted_is_left_alone() -> None:
    api = served()
    api.send("PATCH", DEFAULT, {"metadata": {"finalizers": ["example.com/hold"]}}, type_=MERGE)
    api.send("PATCH", f"{DEFAULT}/status", {"status": {"conditions": []}}, type_=MERGE)
    api.send("DELETE", DEFAULT)
    pass_time(api, 60.0)
    assert api.send("GET", DEFAULT).obj["status"].get("conditions") in (None, [])
