"""A Deployment's life with kubectl, on our own cluster and on a real kube-apiserver: output and events."""

from __future__ import annotations

import re

from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import until
from tests.e2e.scenarios import deployment, paused_deployment

SUCCESS = 'deployment "redis" successfully rolled out'


def messages(kubectl: Kubectl, source: str) -> list[str]:
    """Return the messages of events, with the names of pods and ReplicaSets shortened."""
    events = [event for event in kubectl.items("events") if event["source"].get("component") == source]
    images = {
        rs["metadata"]["name"]: rs["spec"]["template"]["spec"]["containers"][0]["image"]
        for rs in kubectl.items("apps/v1/replicasets")
    }
    lines = []
    for event in sorted(events, key=lambda event: event["metadata"]["name"]):
        text = event["message"]
        for name, image in images.items():
            text = re.sub(rf"{name}(-[a-z0-9]{{5}})?", f"<{image}>", text)
        lines.append(f"{event['type']} {event['reason']}: {text} x{event['count']}")
    return lines


def test_a_deployment_is_created_with_upstreams_events(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "redis", "--image=redis")
    kubectl.until_complete("redis")
    until(lambda: messages(kubectl, "replicaset-controller"), "the pod's event is written")
    assert messages(kubectl, "deployment-controller") == [
        "Normal ScalingReplicaSet: Scaled up replica set <redis> from 0 to 1 x1"
    ]
    assert messages(kubectl, "replicaset-controller") == ["Normal SuccessfulCreate: Created pod: <redis> x1"]


def test_images_are_set_rolled_out_and_taken_back(kubectl: Kubectl) -> None:
    printed = deployment(kubectl)
    assert printed["create"] == "deployment.apps/redis created\n"
    assert printed["scale"] == "deployment.apps/redis scaled\n"
    assert printed["set image"] == "deployment.apps/redis image updated\n"
    assert printed["undo"] == "deployment.apps/redis rolled back\n"
    assert {printed["first status"], printed["status"], printed["undone"]} == {SUCCESS}
    assert revisions(printed["history"]) == ["1", "2"]
    assert revisions(printed["history after undo"]) == ["2", "3"]
    assert "deployment.apps/redis with revision #3" in printed["revision 3"]
    assert re.search(r"Image:\s+redis\n", printed["revision 3"])
    assert "NewReplicaSet:   redis-" in printed["describe"]
    until(lambda: len(messages(kubectl, "deployment-controller")) >= 8, "all events are written")
    assert messages(kubectl, "deployment-controller") == [
        f"Normal ScalingReplicaSet: Scaled {text}"
        for text in (
            "up replica set <redis> from 0 to 1 x2",
            "up replica set <redis> from 1 to 2 x2",
            "up replica set <redis:7> from 0 to 1 x1",
            "down replica set <redis> from 2 to 1 x1",
            "up replica set <redis:7> from 1 to 2 x1",
            "down replica set <redis> from 1 to 0 x1",
            "down replica set <redis:7> from 2 to 1 x1",
            "down replica set <redis:7> from 1 to 0 x1",
        )
    ]


def test_a_paused_rollout_waits_until_it_is_resumed(kubectl: Kubectl) -> None:
    printed = paused_deployment(kubectl)
    assert printed["pause"] == "deployment.apps/redis paused\n"
    assert printed["pause again"] == 'error: deployments.apps "redis" is already paused\n'
    assert printed["resume"] == "deployment.apps/redis resumed\n"
    assert printed["resumed"] == SUCCESS
    assert revisions(printed["history"]) == ["1", "2"]


def revisions(history: str) -> list[str]:
    title, header, *rows = history.strip().splitlines()
    assert title == "deployment.apps/redis "
    assert header.split() == ["REVISION", "CHANGE-CAUSE"]
    return [row.split()[0] for row in rows]
