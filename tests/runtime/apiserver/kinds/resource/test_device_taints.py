"""Times of taints in ResourceSlices and DeviceTaintRules, table cells, and roles where these kinds are served."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import name_of
from kcm.runtime.apiserver.bootstrap.policy import bootstrap_policy
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.off_by_default import OFF_BY_DEFAULT
from tests.runtime.apiserver.conftest import Api
from tests.runtime.apiserver.kinds.printers import cells

ROOT = "/apis/resource.k8s.io"
SLICES, RULES = f"{ROOT}/v1/resourceslices", f"{ROOT}/v1beta2/devicetaintrules"
REQUESTS = f"{ROOT}/v1alpha3/resourcepoolstatusrequests"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:controller:"
TAINT = {"key": "broken", "effect": "NoExecute"}


@pytest.fixture
def served(make_api: Any) -> Api:
    return make_api(resources=(*BUILT_IN, *OFF_BY_DEFAULT))  # type: ignore[no-any-return]


def slice_with(*taints: dict[str, str]) -> dict[str, Any]:
    spec = {"driver": "a.b", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n"}
    return {"metadata": {"name": "s"}, "spec": {**spec, "devices": [{"name": "d", "taints": list(taints)}]}}


def times(obj: dict[str, Any]) -> list[str]:
    return [taint["timeAdded"] for taint in obj["spec"]["devices"][0]["taints"]]


def test_taint_that_an_update_adds_has_the_time_of_the_update(served: Api) -> None:
    created = served.send("POST", SLICES, slice_with(TAINT)).obj
    (first,) = times(created)
    assert first == created["metadata"]["creationTimestamp"]
    served.advance(60.0)
    created["spec"]["devices"][0]["taints"].append({"key": "hot", "effect": "NoSchedule"})
    changed = served.send("PUT", f"{SLICES}/s", created).obj
    assert times(changed)[0] == first
    assert times(changed)[1] > first
    operation = {"op": "add", "path": "/spec/devices/0/taints/-", "value": {"key": "old", "effect": "None"}}
    served.advance(60.0)
    patched = served.send("PATCH", f"{SLICES}/s", [operation], type_="application/json-patch+json").obj
    assert times(patched)[2] > times(patched)[1]


def test_another_effect_of_a_rule_renews_its_time_unless_the_client_set_it(served: Api) -> None:
    rule = served.send("POST", RULES, {"metadata": {"name": "r"}, "spec": {"taint": {**TAINT, "effect": "None"}}}).obj
    assert (rule["metadata"]["generation"], rule["status"]) == (1, {})
    first = rule["spec"]["taint"]["timeAdded"]
    served.advance(60.0)
    rule["spec"]["taint"]["effect"] = "NoExecute"
    changed = served.send("PUT", f"{RULES}/r", rule).obj
    assert changed["spec"]["taint"]["timeAdded"] > first
    assert changed["metadata"]["generation"] == 2
    changed["spec"]["taint"].update(effect="None", timeAdded="2020-01-01T00:00:00Z")
    again = served.send("PUT", f"{RULES}/r", changed).obj
    assert again["spec"]["taint"]["timeAdded"] == "2020-01-01T00:00:00Z"


def test_request_has_no_status_until_the_first_one_which_is_final(served: Api) -> None:
    created = served.send("POST", REQUESTS, {"metadata": {"name": "r"}, "spec": {"driver": "a.b"}}).obj
    assert "status" not in created
    assert created["spec"] == {"driver": "a.b", "limit": 100}
    created["status"] = {"poolCount": 0}
    stored = served.send("PUT", f"{REQUESTS}/r/status", created).obj
    assert stored["status"] == {"poolCount": 0}
    assert served.send("PUT", f"{REQUESTS}/r/status", stored).status == 200
    stored["status"] = {"poolCount": 1}
    refused = served.send("PUT", f"{REQUESTS}/r/status", stored)
    assert (refused.status, refused.obj["details"]["causes"][0]["field"]) == (422, "status")


DONE = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-02T02:58:30Z"}
POOLS = [
    {"totalDevices": 4, "allocatedDevices": 1, "availableDevices": 3, "unavailableDevices": 0},
    {"validationError": "incomplete"},
]


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (None, ["-", "-", "-", "-", "-", 0, "Pending", "<none>"]),
        ({"poolCount": 2, "pools": POOLS, "conditions": [DONE]}, ["4", "3", "1", "0", "1", 2, "Complete", "90s"]),
        (
            {"poolCount": 5, "pools": POOLS, "conditions": [DONE]},
            ["4", "3", "1", "0", "1", 5, "Complete (2/5 pools)", "90s"],
        ),
        (
            {"poolCount": 0, "conditions": [{**DONE, "type": "Failed"}]},
            ["-", "-", "-", "-", "-", 0, "Failed", "<none>"],
        ),
    ],
)
def test_cells_of_a_request_sum_up_its_pools(status: dict[str, Any] | None, shown: list[Any]) -> None:
    fields = {"spec": {"driver": "a.b"}} | ({} if status is None else {"status": status})
    assert cells("resource.k8s.io/v1alpha3", "ResourcePoolStatusRequest", **fields) == ["x", "a.b", *shown]


def test_controllers_have_rights_only_where_the_kinds_are_served(make_api: Any) -> None:
    plain, served = (make_api(role_based=True, resources=kinds) for kinds in (BUILT_IN, (*BUILT_IN, *OFF_BY_DEFAULT)))
    for api in (plain, served):
        api.server.ensure_roles()
    eviction, status = "device-taint-eviction-controller", "resourcepoolstatusrequest-controller"

    def resources(api: Api, name: str) -> set[str]:
        return {r for rule in api.send("GET", f"{ROLES}{name}").obj["rules"] for r in rule["resources"]}

    assert resources(served, eviction) - resources(plain, eviction) == {"devicetaintrules", "devicetaintrules/status"}
    assert plain.send("GET", f"{ROLES}{status}").status == 404
    assert "resourcepoolstatusrequests/status" in resources(served, status)
    assert status not in {name_of(role) for role in bootstrap_policy()}


def test_slices_can_be_selected_by_driver_and_by_node(served: Api) -> None:
    served.send("POST", SLICES, slice_with())
    assert served.send("GET", SLICES, fieldSelector="spec.driver=a.b,spec.nodeName=n").names == ["s"]
    assert served.send("GET", SLICES, fieldSelector="spec.driver=other").names == []
    refused = served.send("GET", SLICES, fieldSelector="spec.pool.name=p")
    unsupported = "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.pool.name"
    assert unsupported in refused.message
