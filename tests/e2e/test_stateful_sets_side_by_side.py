"""StatefulSets with kcm and with kube-controller-manager, on one kube-apiserver: the same pods,
claims, revisions (names, numbers, data), events and status after each user action.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import CONTROLLERS, managing, until
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.snapshots import Snapshot, assert_equal_after_each, normalised
from tests.e2e.stateful_sets import (
    CLAIMS,
    REVISIONS,
    SETS,
    change,
    replace_pod,
    revisions,
    set_image,
    stateful_set,
    status,
    until_ready,
    until_status,
    until_updated,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

NAME = "statefulset-controller"
BOTH = {"whenDeleted": "Delete", "whenScaled": "Delete"}


def created(kubectl: Kubectl) -> None:
    kubectl.apply(
        stateful_set("web", 3, claims=("data",), persistentVolumeClaimRetentionPolicy=BOTH),
        stateful_set("many", 4, podManagementPolicy="Parallel", ordinals={"start": 5}, minReadySeconds=1),
        stateful_set("by-hand", 2, updateStrategy={"type": "OnDelete"}, claims=("data",)),
        stateful_set("back", 2, claims=("data", "logs")),
    )
    until_ready(kubectl, "web", 3)
    until_ready(kubectl, "many", 4)
    until_ready(kubectl, "by-hand", 2)
    until_ready(kubectl, "back", 2)


def scaled(kubectl: Kubectl) -> None:
    kubectl("scale", "statefulset", "web", "--replicas=4")
    kubectl("scale", "statefulset", "many", "--replicas=2")
    until_ready(kubectl, "web", 4)
    until_ready(kubectl, "many", 2)


def updated_above_a_partition(kubectl: Kubectl) -> None:
    change(kubectl, "web", {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}})
    set_image(kubectl, "web", "web:2")
    until_status(kubectl, "web", updatedReplicas=2, readyReplicas=4, currentReplicas=2)
    replace_pod(kubectl, "web-0")  # by one of the same revision
    until_status(kubectl, "web", updatedReplicas=2, readyReplicas=4, currentReplicas=2, replicas=4)


def updated_whole(kubectl: Kubectl) -> None:
    change(kubectl, "web", {"updateStrategy": {"rollingUpdate": {"partition": 0}}})
    until_updated(kubectl, "web", 4)
    change(kubectl, "many", {"template": {"metadata": {"annotations": {"example.com/text": "<2 & more>"}}}})
    until_updated(kubectl, "many", 2)
    set_image(kubectl, "back", "web:2")
    until_updated(kubectl, "back", 2)
    set_image(kubectl, "by-hand", "web:2")
    until_status(kubectl, "by-hand", currentReplicas=2, readyReplicas=2)
    replace_pod(kubectl, "by-hand-1")
    until_status(kubectl, "by-hand", currentReplicas=1, updatedReplicas=1, readyReplicas=2)


def rolled_back(kubectl: Kubectl) -> None:
    kubectl("rollout", "undo", "statefulset/back")
    until_updated(kubectl, "back", 2)


def scaled_down_with_claims(kubectl: Kubectl) -> None:
    kubectl("scale", "statefulset", "web", "--replicas=1")
    until_ready(kubectl, "web", 1)
    change(kubectl, "web", {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}})
    until(lambda: not owners(kubectl, "data-web-0"), "the claim has no owner", why=kubectl.state)
    change(kubectl, "by-hand", {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}})
    until(lambda: owners(kubectl, "data-by-hand-0"), "the claim has an owner", why=kubectl.state)


def deleted_and_adopted(kubectl: Kubectl) -> None:
    kubectl("label", "pod", "by-hand-0", "app-")
    until(lambda: status(kubectl, "by-hand").get("replicas") == 1, "it is released", why=kubectl.state)
    kubectl("label", "pod", "by-hand-0", "app=by-hand")
    until_ready(kubectl, "by-hand", 2)


STAGES: tuple[Callable[[Kubectl], None], ...] = (
    created,
    scaled,
    updated_above_a_partition,
    updated_whole,
    rolled_back,
    scaled_down_with_claims,
    deleted_and_adopted,
)


def owners(kubectl: Kubectl, claim: str) -> list[Object]:
    found: list[Object] = kubectl.get(CLAIMS, claim)["metadata"].get("ownerReferences", [])
    return found


def found(kubectl: Kubectl) -> Snapshot:
    """Return all objects except events: revisions unchanged, pods without the fields of kubelet and scheduler."""
    objects: Snapshot = {"revisions, exactly": [json.dumps(revision) for revision in revisions(kubectl)]}
    for resource in (SETS, REVISIONS, CLAIMS, "pods"):
        items = kubectl.items(resource)
        for item in items:
            item["metadata"].pop("resourceVersion")
            if resource == "pods":
                fields = item["metadata"]["managedFields"]
                item["metadata"]["managedFields"] = [entry for entry in fields if entry.get("subresource") != "status"]
                item.pop("status")
                # The real one draws their order.
                item["spec"].get("volumes", []).sort(key=lambda volume: volume["name"])
        objects[resource] = sorted(
            json.dumps(normalised(item, kubectl.namespace, {}), indent=1, sort_keys=True) for item in items
        )
    objects["statuses"] = [
        json.dumps({stateful_set["metadata"]["name"]: stateful_set["status"]}) for stateful_set in kubectl.items(SETS)
    ]
    return objects


def event_texts(kubectl: Kubectl) -> list[str]:
    """Return the events of the sets with their counts. No set has enough events for some to be combined."""
    times: Counter[str] = Counter()
    for event in kubectl.items("events"):
        if event["involvedObject"]["kind"] == "StatefulSet":
            times[f"{event['source'].get('component')} {event['type']} {event['reason']} {event['message']}"] += event[
                "count"
            ]
    return sorted(f"{count} times {text}" for text, count in times.items())


def after_each_stage(kubectl: Kubectl) -> list[Snapshot]:
    snapshots = []
    for stage in STAGES:
        stage(kubectl)
        snapshots.append(settled(kubectl))
    return snapshots


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


def test_the_same_comes_of_what_users_do(real: RealServer) -> None:
    unlimited = ("--kube-api-qps=1000", "--kube-api-burst=1000")  # otherwise events may come after a snapshot
    with real_manager(real, f"--controllers={NAME}", *unlimited):
        theirs = after_each_stage(in_namespace(real.kubeconfig, "stateful-real"))
    flags = (
        f"--kubeconfig={real.kubeconfig}",
        "--leader-elect=false",
        f"--controllers={','.join((*CONTROLLERS, NAME))}",
        *unlimited,
    )
    with managing(real.directory / "stateful.log", *flags):
        ours = after_each_stage(in_namespace(real.kubeconfig, "stateful-ours"))
    assert_equal_after_each(STAGES, theirs, ours)
