"""Default FlowSchemas and PriorityLevelConfigurations are those of kube-apiserver 1.36."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.apiserver.conftest import Api

RECORDED = json.loads(Path(__file__).with_name("flow_control_answers.json").read_text())
SCHEMAS, LEVELS = RECORDED


def shown(listed: dict[str, Any]) -> dict[str, Any]:
    """Return the objects by name, without transition times."""
    found = {}
    for obj in listed["items"]:
        for condition in obj["status"].get("conditions", ()):
            del condition["lastTransitionTime"]
        name, annotations = obj["metadata"]["name"], obj["metadata"]["annotations"]
        found[name] = {"annotations": annotations, "spec": obj["spec"], "status": obj["status"]}
    return found


@pytest.fixture
def served(api: Api) -> Api:
    api.server.publish_address("10.0.0.5", 6443)
    return api


@pytest.mark.parametrize("path", RECORDED)
def test_objects_are_those_of_kube_apiserver(served: Api, path: str) -> None:
    assert shown(served.send("GET", path).obj) == RECORDED[path]


def test_deleted_or_changed_objects_are_restored_within_a_minute(served: Api) -> None:
    served.send("DELETE", f"{LEVELS}/node-high")
    changed = {"spec": {"matchingPrecedence": 5}}
    served.send("PATCH", f"{SCHEMAS}/probes", changed, type_="application/merge-patch+json")
    served.advance(61)
    for path, recorded in RECORDED.items():
        assert shown(served.send("GET", path).obj) == recorded


def test_object_without_autoupdate_is_not_corrected(served: Api) -> None:
    own = {"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}}
    changed = {**own, "spec": {"matchingPrecedence": 5}}
    served.send("PATCH", f"{SCHEMAS}/probes", changed, type_="application/merge-patch+json")
    served.advance(61)
    assert served.send("GET", f"{SCHEMAS}/probes").obj["spec"]["matchingPrecedence"] == 5


def test_dangling_condition_reports_whether_the_level_exists(served: Api) -> None:
    def reason() -> str:
        (condition,) = served.send("GET", f"{SCHEMAS}/mine").obj["status"]["conditions"]
        assert condition["status"] == str(condition["reason"] == "NotFound")
        return str(condition["reason"])

    spec = {**RECORDED[SCHEMAS]["probes"]["spec"], "priorityLevelConfiguration": {"name": "mine"}}
    served.send("POST", SCHEMAS, {"metadata": {"name": "mine"}, "spec": spec})
    assert reason() == "NotFound"
    level = {"metadata": {"name": "mine"}, "spec": RECORDED[LEVELS]["system"]["spec"]}
    assert served.send("POST", LEVELS, level).status == 201
    assert reason() == "Found"
    served.send("DELETE", f"{LEVELS}/mine")
    assert reason() == "NotFound"


@pytest.mark.cluster
@pytest.mark.parametrize("path", RECORDED)
def test_recorded_objects_are_those_of_kube_apiserver(tmp_path: Path, path: str) -> None:
    from tests.e2e.kubectl import Api as RealApi
    from tests.e2e.real_server import assets_or_skip, real_server
    from tests.runtime.apiserver.contracts.requests import JSON, Given, real_sender

    with real_server(tmp_path, assets_or_skip()) as server:
        reached = RealApi(server.kubeconfig)
        send = real_sender(reached.url, reached.token)
        for _ in range(50):
            found = shown(send(Given("GET", path, b"", JSON, {}))[1])
            if found == RECORDED[path]:
                return
            time.sleep(0.2)
        assert found == RECORDED[path]
