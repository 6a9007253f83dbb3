"""The article's ReplicationController, with kubectl, on our own cluster and on a real kube-apiserver."""

from __future__ import annotations

import re

from tests.e2e.conftest import Site
from tests.e2e.kubectl import Api, Kubectl, name_of
from tests.e2e.programs import until
from tests.e2e.scenarios import replication_controller


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_one_command_brings_a_cluster_with_its_two_pods_running(own_cluster: Site) -> None:
    kubectl = Kubectl(Api(own_cluster.kubeconfig), "default")
    kubectl.until_pods(2)
    output = own_cluster.manager.program.text()
    assert f"export KUBECONFIG={own_cluster.kubeconfig}\n" in output
    assert "with 3 hollow nodes in 2 zones." in output
    assert "Applied replicationcontroller/nginx-server.\n" in output
    nodes = {name_of(node): node["metadata"]["labels"] for node in kubectl.api.get("/api/v1/nodes")["items"]}
    assert len(nodes) == 3
    assert len({labels["topology.kubernetes.io/zone"] for labels in nodes.values()}) == 2
    assert {pod["spec"]["nodeName"] for pod in kubectl.ready_pods()} <= nodes.keys()


def test_pods_are_replaced_and_scaled_with_events(kubectl: Kubectl) -> None:
    printed = replication_controller(kubectl)
    assert printed["apply"] == "replicationcontroller/nginx-server created\n"
    header, row = words(printed["get rc"])
    assert header == ["NAME", "DESIRED", "CURRENT", "READY", "AGE"]
    assert row[:4] == ["nginx-server", "2", "2", "2"]
    described, _, events = printed["describe rc"].partition("Events:\n")
    assert "Replicas:     2 current / 2 desired\n" in described
    assert "Pods Status:  2 Running / 0 Waiting / 0 Succeeded / 0 Failed\n" in described
    rows = [re.split(r"\s{2,}", line.strip()) for line in events.splitlines()]
    assert rows[0] == ["Type", "Reason", "Age", "From", "Message"]
    assert [(type, reason, source) for type, reason, _, source, _ in rows[2:]] == [
        ("Normal", "SuccessfulCreate", "replication-controller")
    ] * 2
    assert all(re.fullmatch(r"Created pod: nginx-server-[a-z0-9]{5}", message) for *_, message in rows[2:])
    assert printed["scale up"] == printed["scale down"] == "replicationcontroller/nginx-server scaled\n"
    header, row = words(printed["get rc after"])
    assert header == ["NAME", "DESIRED", "CURRENT", "READY", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    assert row[:4] + row[5:] == [
        "nginx-server",
        *"222",
        "nginx,content-writer",
        "nginx,busybox",
        "app=nginx-server",
    ]


def test_event_is_recorded_only_for_pods_that_the_controller_deleted(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "examples/nginx-rc.yml")
    gone, _ = kubectl.until_pods(2)
    kubectl("annotate", "pod", name_of(gone), "controller.kubernetes.io/pod-deletion-cost=-1")
    kubectl("scale", "--replicas=1", "rc/nginx-server")
    kubectl.until_pods(1)

    def deletion_events() -> list[tuple[str, str]]:
        return [(event["type"], event["message"]) for event in kubectl.items("events") if "Delete" in event["reason"]]

    assert until(deletion_events, "an event", why=kubectl.state) == [("Normal", f"Deleted pod: {name_of(gone)}")]
