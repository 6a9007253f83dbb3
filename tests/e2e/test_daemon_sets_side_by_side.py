"""DaemonSets with kcm and with kube-controller-manager, on one kube-apiserver: the same pods,
revisions, events and status after each user action.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kcm.protocols.hashing import template_hash
from tests.e2e.conftest import in_namespace
from tests.e2e.daemon_sets import REVISIONS, SETS, daemon_set, pods_of
from tests.e2e.hashed_templates import TEMPLATES, hashed
from tests.e2e.kubectl import Kubectl, name_of
from tests.e2e.programs import CONTROLLERS, managing, until
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.snapshots import Snapshot, assert_equal_after_each, normalised

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

NAME = "daemonset-controller"
HASH = "controller-revision-hash"
LABEL = "example.com/choosy"
NODE = "hollow-node-1"
REAL, OURS = "daemons-real", "daemons-ours"  # namespaces
SURGING = "surging"  # DaemonSet with minReadySeconds
NUDGE = 15.0  # seconds
SURGE = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


def until_status(kubectl: Kubectl, name: str, **wanted: int) -> None:
    """Wait for these counts in the status of the newest generation. A missing count is 0."""

    def is_so() -> bool:
        obj = kubectl.get(SETS, name)
        status = obj.get("status", {})
        observed = status.get("observedGeneration") == obj["metadata"]["generation"]
        return observed and all(status.get(field, 0) == value for field, value in wanted.items())

    if kubectl.namespace == REAL and name == SURGING:
        # The real manager may look at a pod just before minReadySeconds have passed, and then not again until something
        # changes.
        with suppress(AssertionError):
            until(is_so, "the real manager makes progress", within=NUDGE)
        if not is_so():
            for change in ("nudge=yes", "nudge-"):
                kubectl("annotate", "daemonset", name, change)
    until(is_so, f"the status of {name} says {wanted}", why=kubectl.state)


def until_everywhere(kubectl: Kubectl, name: str) -> None:
    """Wait until three nodes have a pod of the newest template, and no pod is being deleted."""
    until_status(kubectl, name, updatedNumberScheduled=3, numberAvailable=3, desiredNumberScheduled=3)
    until(lambda: len(pods_of(kubectl, name, going=True)) == 3, "old pods are gone", why=kubectl.state)


def created(kubectl: Kubectl) -> None:
    kubectl.apply(
        daemon_set("v1", name="agent", tolerations=[{"operator": "Exists", "effect": "NoSchedule"}], hostNetwork=True),
        daemon_set("v1", name="surging", strategy=SURGE, min_ready=1),
        daemon_set("v1", name="by-hand", strategy={"type": "OnDelete"}),
        daemon_set("v1", name="choosy", nodeSelector={LABEL: "yes"}),
    )
    for name in ("agent", "surging", "by-hand"):
        until_everywhere(kubectl, name)
    until_status(kubectl, "choosy", desiredNumberScheduled=0)


def updated(kubectl: Kubectl) -> None:
    text = {"metadata": {"annotations": {"example.com/text": "<2 & more>"}}}
    patch_of(kubectl, "agent", {"template": text})
    until_everywhere(kubectl, "agent")  # else the number of updated pods at the second change is random
    kubectl("set", "image", "daemonset/agent", "c=v2")
    kubectl("set", "image", "daemonset/surging", "c=v2")
    kubectl("set", "image", "daemonset/by-hand", "c=v2")
    until_everywhere(kubectl, "surging")
    until_everywhere(kubectl, "agent")
    until_status(kubectl, "by-hand", updatedNumberScheduled=0, numberAvailable=3)
    kubectl("delete", "pod", name_of(pod_on(kubectl, "by-hand", NODE)))
    until_status(kubectl, "by-hand", updatedNumberScheduled=1, numberAvailable=3)


def rolled_back(kubectl: Kubectl) -> None:
    kubectl("rollout", "undo", "daemonset/agent", "--to-revision=1")
    until_everywhere(kubectl, "agent")


def nodes_chosen(kubectl: Kubectl) -> None:
    kubectl("label", "node", NODE, f"{LABEL}=yes")
    until_status(kubectl, "choosy", desiredNumberScheduled=1, numberAvailable=1)
    kubectl("label", "node", NODE, f"{LABEL}-")
    until(lambda: not pods_of(kubectl, "choosy", going=True), "its pod is gone", why=kubectl.state)
    until_status(kubectl, "choosy", desiredNumberScheduled=0, numberMisscheduled=0)


def tainted(kubectl: Kubectl) -> None:
    kubectl("taint", "node", NODE, "example.com/t=:NoExecute")
    until_status(kubectl, "by-hand", desiredNumberScheduled=2, numberAvailable=2, numberMisscheduled=0)
    until_status(kubectl, "agent", desiredNumberScheduled=2, numberAvailable=2, numberMisscheduled=0)
    kubectl("taint", "node", NODE, "example.com/t-")
    until_everywhere(kubectl, "agent")
    until_everywhere(kubectl, "surging")


def released_and_adopted(kubectl: Kubectl) -> None:
    pod = name_of(pod_on(kubectl, "agent", NODE))
    kubectl("label", "pod", pod, "app-")
    until_everywhere(kubectl, "agent")
    time.sleep(1.1)  # creation times are whole seconds
    kubectl("label", "pod", pod, "app=agent")
    until(lambda: name_of(pod_on(kubectl, "agent", NODE)) == pod, "the older one is kept", why=kubectl.state)
    until_everywhere(kubectl, "agent")


def forgotten(kubectl: Kubectl) -> None:
    patch_of(kubectl, "agent", {"revisionHistoryLimit": 0})
    until(lambda: len(kubectl.items(REVISIONS, "app=agent")) == 1, "one revision is left", why=kubectl.state)


STAGES: tuple[Callable[[Kubectl], None], ...] = (
    created,
    updated,
    rolled_back,
    nodes_chosen,
    tainted,
    released_and_adopted,
    forgotten,
)


def patch_of(kubectl: Kubectl, name: str, spec: Any) -> None:
    kubectl("patch", "daemonset", name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def pod_on(kubectl: Kubectl, name: str, node: str) -> Any:
    """Return the set's pod on the node."""
    return next(pod for pod in pods_of(kubectl, name) if pod["spec"].get("nodeName") == node)


def found(kubectl: Kubectl) -> Snapshot:
    """Return all objects except events, and pods without the fields that kubelet and scheduler write."""
    revisions = kubectl.items(REVISIONS)
    words = {revision["metadata"]["labels"][HASH]: f"<{json.dumps(revision['data'])}>" for revision in revisions}
    exactly = [f"{name_of(revision)} {revision['revision']} {json.dumps(revision['data'])}" for revision in revisions]
    objects: Snapshot = {"revisions, exactly": sorted(exactly)}
    for resource in (SETS, REVISIONS, "pods"):
        items = kubectl.items(resource)
        for item in items:
            item["metadata"].pop("resourceVersion")
            if resource == "pods":
                fields = item["metadata"]["managedFields"]
                item["metadata"]["managedFields"] = [entry for entry in fields if entry.get("subresource") != "status"]
                item.pop("status")
        objects[resource] = sorted(
            json.dumps(normalised(item, kubectl.namespace, words), indent=1, sort_keys=True) for item in items
        )
    return objects


def event_texts(kubectl: Kubectl) -> list[str]:
    """Return the events of the sets with their counts."""
    times: Counter[str] = Counter()
    for event in kubectl.items("events"):
        if event["involvedObject"]["kind"] == "DaemonSet":
            text = f"{event['source'].get('component')} {event['type']} {event['reason']} {event['message']}"
            times[str(normalised(text, kubectl.namespace, {}))] += event["count"]
    return sorted(f"{count} times {text}" for text, count in times.items())


def settled(kubectl: Kubectl) -> Snapshot:
    """Return the snapshot after it was unchanged for a second, since events are written late."""
    before: Snapshot = {}
    for _ in range(30):
        now = {**found(kubectl), "events": event_texts(kubectl)}
        if now == before:
            return now
        before = now
        time.sleep(1.0)
    raise AssertionError(f"there is no end to the changes\n{kubectl.state()}")


def after_each_stage(kubectl: Kubectl) -> list[Snapshot]:
    snapshots = []
    for stage in STAGES:
        stage(kubectl)
        snapshots.append(settled(kubectl))
    return snapshots


def test_revisions_bear_the_same_names(real: RealServer) -> None:
    """Compare the names for templates with many kinds of fields."""
    with real_manager(real, f"--controllers={NAME}"):
        kubectl = in_namespace(real.kubeconfig, "hashed-templates")
        kubectl.apply(*map(hashed, TEMPLATES))
        until(lambda: len(kubectl.items(REVISIONS)) == len(TEMPLATES), "all are recorded", why=kubectl.state)
    names = {revision["metadata"]["labels"]["app"]: name_of(revision) for revision in kubectl.items(REVISIONS)}
    ours = {
        name_of(daemon_set): template_hash(daemon_set["spec"]["template"], None) for daemon_set in kubectl.items(SETS)
    }
    assert names == {name: f"{name}-{hash}" for name, hash in ours.items()}


def test_the_same_comes_of_what_users_do(real: RealServer) -> None:
    unlimited = ("--kube-api-qps=1000", "--kube-api-burst=1000")
    with real_manager(real, f"--controllers={NAME}", *unlimited):
        theirs = after_each_stage(in_namespace(real.kubeconfig, REAL))
    flags = (
        f"--kubeconfig={real.kubeconfig}",
        "--leader-elect=false",
        f"--controllers={','.join((*CONTROLLERS, NAME))}",
        *unlimited,
    )
    with managing(real.directory / "daemons.log", *flags):
        ours = after_each_stage(in_namespace(real.kubeconfig, OURS))
    assert_equal_after_each(STAGES, theirs, ours)
