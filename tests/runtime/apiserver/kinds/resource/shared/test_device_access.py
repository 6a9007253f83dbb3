"""Authorization of ResourceClaims: admin access, and updates of a claim's status.

Cases of kubernetes v1.36 pkg/registry/resource/utils_test.go. tests/e2e/test_access_side_by_side.py compares the
results with kube-apiserver.
"""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.resource.shared.device_access import ADMIN_LABEL, NODE_OF_TOKEN
from kcm.runtime.apiserver.registry.users import User
from tests.runtime.apiserver.conftest import Answer, Api

GROUP, RBAC = "rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
DRIVER = User("system:serviceaccount:default:driver", extra={NODE_OF_TOKEN: ("n1",)})
ELSEWHERE = DRIVER._replace(extra={NODE_OF_TOKEN: ("n2",)})
TERM = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
DEVICE = {"driver": "d.io", "pool": "p", "device": "x"}
ALLOCATION = {
    "devices": {"results": [{"request": "r", **DEVICE}]},
    "nodeSelector": {"nodeSelectorTerms": [TERM]},
}


@pytest.fixture
def api() -> Api:
    made = Api(role_based=True)
    made.create("namespaces", {"metadata": {"name": "default"}})
    return made


def create_claim(api: Api, name: str, *, admin: bool = False) -> Answer:
    exactly = {"deviceClassName": "c", "allocationMode": "All", "adminAccess": admin}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return api.send("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})


def write(api: Api, status: Any, user: User) -> Answer:
    body, merge = {"status": status}, "application/merge-patch+json"
    return api.send("PATCH", f"{CLAIMS}/c/status", body, type_=merge, user=user)


def give(api: Api, verb: str, resource: str, names: list[str] | None = None) -> None:
    name = resource.replace("/", "-")
    rule = {"verbs": [verb], "apiGroups": ["resource.k8s.io"], "resources": [resource], "resourceNames": names or []}
    api.send("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "User", "name": DRIVER.name, "apiGroup": GROUP}]
    body = {"metadata": {"name": name}, "roleRef": ref, "subjects": subjects}
    assert api.send("POST", f"{RBAC}/clusterrolebindings", body).status == 201


def test_admin_access_needs_a_labelled_namespace(api: Api) -> None:
    assert create_claim(api, "c", admin=True).causes == {
        "spec.devices.requests[0].adminAccess": f"Forbidden: admin access to devices requires the `{ADMIN_LABEL}: "
        "true` label on the containing namespace"
    }
    assert create_claim(api, "c").status == 201
    granted = {**ALLOCATION, "devices": {"results": [{"request": "r", **DEVICE, "adminAccess": True}]}}
    refused = write(api, {"allocation": granted}, User("root", groups=("system:masters",)))
    assert "status.allocation.devices.results[0].adminAccess" in refused.causes
    api.patch("namespaces", "default", {"metadata": {"labels": {ADMIN_LABEL: "true"}}})
    assert create_claim(api, "d", admin=True).status == 201


def test_allocation_needs_permission_to_bind(api: Api) -> None:
    create_claim(api, "c")
    assert write(api, {"allocation": ALLOCATION}, DRIVER).causes == {
        "status.allocation": "Forbidden: changing status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="patch" permission: resourceclaims.resource.k8s.io is forbidden: User '
        f'"{DRIVER.name}" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster '
        "scope"
    }
    give(api, "patch", "resourceclaims/binding")
    assert write(api, {"allocation": ALLOCATION}, DRIVER).status == 200


def test_driver_may_write_status_of_its_devices_on_its_node(api: Api) -> None:
    create_claim(api, "c")
    assert write(api, {"allocation": ALLOCATION}, User("root", groups=("system:masters",))).status == 200
    status = {"devices": [{**DEVICE, "data": {"a": 1}}]}
    verbs = 'verb="[associated-node:patch arbitrary-node:patch]"'
    assert verbs in write(api, status, DRIVER).causes["status.devices"]
    assert 'verb="[arbitrary-node:patch]"' in write(api, status, ELSEWHERE).causes["status.devices"]
    give(api, "associated-node:patch", "resourceclaims/driver", ["d.io"])
    assert write(api, status, ELSEWHERE).status == 422
    assert write(api, status, DRIVER).status == 200
    assert write(api, {"devices": []}, ELSEWHERE).status == 422
