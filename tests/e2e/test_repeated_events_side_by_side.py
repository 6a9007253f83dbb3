"""Events that a controller could repeat without end: as often with ours as with the real kube-controller-manager."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Api, Object
from tests.e2e.programs import ending, run_kcm, until
from tests.e2e.real_server import RealServer, real_manager

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

CONTROLLERS = "--controllers=garbage-collector-controller,disruption-controller"
REASONS = ("OwnerRefInvalidNamespace", "CalculateExpectedPodCountFailed", "NoPods")
MERGE = "application/merge-patch+json"
LONG = 30.0  # seconds, in which retries with backoff show


def owner_reference(owner: Object, name: str = "", **more: bool) -> Object:
    meta = owner["metadata"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name or meta["name"], "uid": meta["uid"], **more}


def recorded(server: RealServer, name: str) -> list[tuple[str, str, int]]:
    """The events of a scene in namespaces of this name: reason, kind and count."""
    first, second = f"{name}-1", f"{name}-2"
    for namespace in (first, second):
        in_namespace(server.kubeconfig, namespace)
    api = Api(server.kubeconfig)
    maps = f"/api/v1/namespaces/{first}/configmaps"
    owner, other = (api.request("POST", maps, {"metadata": {"name": each}}) for each in ("owner", "other"))
    time.sleep(3.0)  # owners are observed before what they own
    wrong_name = {"name": "wrong-name", "ownerReferences": [owner_reference(owner, "wrong")]}
    api.request("POST", maps, {"metadata": wrong_name})
    elsewhere = {"name": "elsewhere", "ownerReferences": [owner_reference(owner)]}
    api.request("POST", f"/api/v1/namespaces/{second}/configmaps", {"metadata": elsewhere})
    api.request("POST", "/api/v1/nodes", {"metadata": {"name": name, "ownerReferences": [owner_reference(owner)]}})
    for is_controller in (True, False, True):
        time.sleep(1.5)
        changed = {"metadata": {"ownerReferences": [owner_reference(owner, controller=is_controller)]}}
        api.request("PATCH", f"/api/v1/nodes/{name}", changed, type=MERGE)
    added = {"metadata": {"ownerReferences": [owner_reference(owner), owner_reference(other)]}}
    api.request("PATCH", f"/api/v1/nodes/{name}", added, type=MERGE)
    meta = {"name": "p", "labels": {"app": "web"}, "ownerReferences": [owner_reference(owner, controller=True)]}
    pod = {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    api.request("POST", f"/api/v1/namespaces/{first}/pods", pod)
    time.sleep(2.0)
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budgets = f"/apis/policy/v1/namespaces/{first}/poddisruptionbudgets"
    api.request("POST", budgets, {"metadata": {"name": "web"}, "spec": budget})
    until(lambda: len(api.get(maps)["items"]) <= 3, "what names a wrong owner is deleted")
    time.sleep(LONG)
    return sorted(
        (event["reason"], event["involvedObject"]["kind"], event["count"])
        for event in api.get("/api/v1/events")["items"]
        if event["reason"] in REASONS
        and (event["involvedObject"]["name"] == name or event["metadata"]["namespace"] in (first, second))
    )


def test_events_are_repeated_as_often_as_by_the_real_manager(real: RealServer, tmp_path: Path) -> None:
    with real_manager(real, CONTROLLERS):
        theirs = recorded(real, "repeated-real")
    flags = (f"--kubeconfig={real.kubeconfig}", "--leader-elect=false", CONTROLLERS)
    manager = run_kcm(tmp_path / "kcm.log", *flags)
    with ending(manager.program):
        until(lambda: '"Caches are synced"' in manager.program.text(), "it works", why=manager.program.text)
        ours = recorded(real, "repeated-ours")
    assert ours == theirs
    assert len(ours) == 4
