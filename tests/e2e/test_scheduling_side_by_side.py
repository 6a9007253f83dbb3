"""Devices and preemption: the decisions of kube-scheduler and of the hollow scheduler, on one kube-apiserver."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Api, Kubectl, Object
from tests.e2e.programs import ending, spawn, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server
from tests.e2e.scheduling import CASES, DEVICES, GROUP_CASES, PRIORITIES, Case

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TERMINATING = "not eligible due to a terminating pod on the nominated node."
SETTLED = 3.0  # seconds after the last pod: a refused pod is retried after at least one second
REFUSED = 2.0  # seconds after which a pod without a condition counts as gated
GROUP = f"/apis/{DEVICES}"
GROUPS = "scheduling.k8s.io/v1alpha2/podgroups"
WITH_GROUPS = "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(tmp_path_factory.mktemp("scheduling"), assets_or_skip()) as server:
        api = Api(server.kubeconfig)
        for name, value in PRIORITIES.items():
            policy = {"preemptionPolicy": "Never"} if name == "polite" else {}
            api.request(
                "POST",
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {"metadata": {"name": name}, "value": value, **policy},
            )
        yield server


@contextmanager
def kube_scheduler(server: RealServer, output: Path, *flags: str) -> Iterator[None]:
    command = [str(server.binaries / "kube-scheduler"), f"--kubeconfig={server.kubeconfig}", "--leader-elect=false"]
    with ending(spawn([*command, "--bind-address=127.0.0.1", "--secure-port=0", "-v=2", *flags], output)):
        yield


@contextmanager
def hollow_scheduler(server: RealServer, output: Path, *flags: str) -> Iterator[None]:
    command = [sys.executable, "-P", "-m", "kcm.actors.hollow.process", f"--kubeconfig={server.kubeconfig}"]
    common = ["--nodes=0", "--volumes", "--devices"]
    with ending(spawn([*command, *common, *flags], output, stdin=subprocess.PIPE)):
        yield


def play(server: RealServer, namespace: str, cases: Mapping[str, Case] = CASES) -> dict[str, Any]:
    """Create the objects of all cases, and return the decisions of the scheduler that runs."""
    kubectl = in_namespace(server.kubeconfig, namespace)
    api = kubectl.api
    for name, case in cases.items():
        for node in case.nodes:
            labels = {**node["metadata"]["labels"], "case": name}
            made = api.request("POST", "/api/v1/nodes", {**node, "metadata": {**node["metadata"], "labels": labels}})
            made["status"] = node["status"]
            api.request("PUT", f"/api/v1/nodes/{made['metadata']['name']}/status", made)
        for device_class in case.classes:
            api.request("POST", f"{GROUP}/deviceclasses", device_class)
        for each in case.slices:
            api.request("POST", f"{GROUP}/resourceslices", each)
        for claim in case.claims:
            api.request("POST", kubectl.path(f"{DEVICES}/resourceclaims"), claim)
        for budget in case.budgets:
            api.request("POST", kubectl.path("policy/v1/poddisruptionbudgets"), budget)
        for group in case.groups:
            api.request("POST", kubectl.path(GROUPS), group)
    time.sleep(1.0)  # the scheduler has observed all of it
    for name, case in cases.items():
        for pod in case.pods:
            _create(kubectl, name, pod)
    until(lambda: _stop_preempted(kubectl), "no pod is preempted any more", within=60.0)
    time.sleep(SETTLED)
    until(lambda: _stop_preempted(kubectl), "no pod is preempted any more", within=60.0)
    try:
        return {name: _decisions(kubectl, case) for name, case in cases.items()}
    finally:
        _clean_up(kubectl)


def _create(kubectl: Kubectl, case: str, pod: Object) -> None:
    selector = {"case": case, **pod["spec"].get("nodeSelector", {})}
    spec = {**pod["spec"], "nodeSelector": selector}
    kubectl.api.request("POST", kubectl.path("pods"), {**pod, "spec": spec})
    name, since = pod["metadata"]["name"], time.monotonic()

    def decided() -> bool:
        made = kubectl.get("pods", name)
        conditions = [each for each in made.get("status", {}).get("conditions", ()) if each["type"] == "PodScheduled"]
        return bool(conditions) or time.monotonic() > since + REFUSED

    until(decided, f"{name} is scheduled or refused")


def _stop_preempted(kubectl: Kubectl) -> bool:
    """Delete the terminating pods as their kubelets would, and report whether all nominated pods are scheduled."""
    pods = kubectl.items("pods")
    for pod in pods:
        if pod["metadata"].get("deletionTimestamp"):
            path = kubectl.path("pods", pod["metadata"]["name"])
            kubectl.api.request("DELETE", path, {"gracePeriodSeconds": 0})
    return not any(pod["metadata"].get("deletionTimestamp") for pod in pods) and not any(
        pod["status"].get("nominatedNodeName") and not pod["spec"].get("nodeName") for pod in pods
    )


def _decisions(kubectl: Kubectl, case: Case) -> dict[str, Any]:
    pods: dict[str, Any] = {}
    for each in case.pods:
        name = each["metadata"]["name"]
        try:
            pod = kubectl.get("pods", name)
        except HTTPError:
            pods[name] = "preempted"
            continue
        conditions = [
            (each["status"], each.get("reason"), each.get("message"))
            for each in pod["status"].get("conditions", ())
            if each["type"] == "PodScheduled"
        ]
        pods[name] = (pod["spec"].get("nodeName"), pod["status"].get("nominatedNodeName"), conditions)
    claims = {}
    for each in case.claims:
        claim = kubectl.get(f"{DEVICES}/resourceclaims", each["metadata"]["name"])
        status = claim.get("status") or {}
        allocation = dict(status.get("allocation") or {})
        stamped = allocation.pop("allocationTimestamp", None) is not None
        for result in allocation.get("devices", {}).get("results", ()):
            if result.get("shareID"):
                result["shareID"] = "some"
        users = sorted((user["resource"], user["name"]) for user in status.get("reservedFor", ()))
        claims[each["metadata"]["name"]] = (claim["metadata"].get("finalizers"), allocation, stamped, users)
    names = set(pods)
    events = {
        (event["involvedObject"]["name"], event["type"], event["reason"], UID.sub("UID", event["message"]))
        for event in kubectl.items("events")
        # kube-scheduler may retry a pod while its victims terminate.
        if event["involvedObject"]["name"] in names and TERMINATING not in event["message"]
    }
    namespace = kubectl.namespace
    return {
        "pods": pods,
        "claims": claims,
        "events": sorted((*each[:3], each[3].replace(namespace, "NAMESPACE")) for each in events),
    }


def _clean_up(kubectl: Kubectl) -> None:
    api = kubectl.api
    for pod in kubectl.items("pods"):
        api.request("DELETE", kubectl.path("pods", pod["metadata"]["name"]), {"gracePeriodSeconds": 0})
    for claim in kubectl.items(f"{DEVICES}/resourceclaims"):
        path = kubectl.path(f"{DEVICES}/resourceclaims", claim["metadata"]["name"])
        claim = api.request("PUT", f"{path}/status", {**claim, "status": {}})
        claim["metadata"].pop("finalizers", None)
        api.request("PUT", path, claim)
        api.request("DELETE", path)
    for path in ("/api/v1/nodes", f"{GROUP}/resourceslices", f"{GROUP}/deviceclasses"):
        api.request("DELETE", path)


def test_decisions_are_those_of_kube_scheduler(server: RealServer, tmp_path: Path) -> None:
    with kube_scheduler(server, tmp_path / "kube-scheduler.log"):
        time.sleep(2.0)
        expected = play(server, "theirs")
    with hollow_scheduler(server, tmp_path / "hollow.log"):
        time.sleep(2.0)
        actual = play(server, "ours")
    _assert_same(actual, expected)


def test_claims_of_groups_are_reserved_as_by_kube_scheduler(tmp_path: Path) -> None:
    serving = (WITH_GROUPS, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    with real_server(tmp_path, assets_or_skip(), *serving) as server:
        with kube_scheduler(server, tmp_path / "kube-scheduler.log", WITH_GROUPS):
            time.sleep(2.0)
            expected = play(server, "theirs", GROUP_CASES)
        with hollow_scheduler(server, tmp_path / "hollow.log", "--pod-groups"):
            time.sleep(2.0)
            actual = play(server, "ours", GROUP_CASES)
    _assert_same(actual, expected)


def _assert_same(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    differing = {
        name: (actual[name], theirs) for name, theirs in expected.items() if _text(actual[name]) != _text(theirs)
    }
    assert not differing, "\n".join(
        f"{name}:\n  ours   {ours}\n  theirs {theirs}" for name, (ours, theirs) in differing.items()
    )


def _text(decisions: dict[str, Any]) -> str:
    return re.sub(r"\b(theirs|ours)\b", "NAMESPACE", repr(decisions))
