"""Pods that end, crash or never start on hollow nodes, as kubectl shows them."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.times import parse_time
from tests.e2e.conftest import Site
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import until


@pytest.fixture
def kubectl(own_cluster: Site, request: pytest.FixtureRequest) -> Kubectl:
    """In a namespace of the test's own, in our own cluster: nodes of others run what they are given."""
    return own_cluster.namespace(request.node.name.replace("_", "-")[:60].strip("-"))


def container_of(kubectl: Kubectl, pod: str) -> Any:
    statuses = (kubectl.get("pods", pod).get("status") or {}).get("containerStatuses")
    return statuses[0] if statuses else {}


def shows(kubectl: Kubectl, pod: str, state: str) -> str:
    """The line of `kubectl get pods`, once it has this status."""

    def line() -> str | None:
        shown = kubectl("get", "pod", pod, "--no-headers")
        return shown if shown.split()[2] == state else None

    return until(line, f"{pod} is {state}", why=kubectl.state)


def events_about(kubectl: Kubectl, pod: str) -> list[tuple[str, str]]:
    found: list[Object] = [event for event in kubectl.items("events") if event["involvedObject"]["name"] == pod]
    return [(event["reason"], event["message"]) for event in found]


def test_a_bare_pod_that_fails_has_failed(kubectl: Kubectl) -> None:
    kubectl("run", "once", "--image=busybox", "--restart=Never", "--command", "--", "sh", "-c", "sleep 1; exit 3")
    shows(kubectl, "once", "Error")
    status = kubectl.get("pods", "once")["status"]
    over = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], over["exitCode"], over["reason"]) == ("Failed", 3, "Error")
    assert kubectl("wait", "pod/once", "--for=jsonpath={.status.phase}=Failed", "--timeout=5s")
    kubectl("run", "well", "--image=busybox", "--restart=Never", "--command", "--", "true")
    shows(kubectl, "well", "Completed")
    kubectl("delete", "pod", "once", "well", "--timeout=20s")


def test_a_pod_whose_image_cannot_be_pulled_never_runs(kubectl: Kubectl) -> None:
    kubectl("run", "web", "--image=registry.invalid/web:1")
    shows(kubectl, "web", "ErrImagePull")
    shows(kubectl, "web", "ImagePullBackOff")
    assert kubectl.get("pods", "web")["status"]["phase"] == "Pending"
    until(lambda: ("Failed", "Error: ImagePullBackOff") in events_about(kubectl, "web"), "events", why=kubectl.state)
    events = events_about(kubectl, "web")
    assert ("Pulling", 'Pulling image "registry.invalid/web:1"') in events
    assert ("BackOff", 'Back-off pulling image "registry.invalid/web:1"') in events
    kubectl("set", "image", "pod/web", "web=nginx")
    until(lambda: container_of(kubectl, "web").get("ready"), "it runs with another image", why=kubectl.state)
    kubectl("delete", "pod", "web", "--timeout=20s")


def test_a_pod_that_crashes_is_restarted_ever_later(kubectl: Kubectl) -> None:
    kubectl("run", "loop", "--image=busybox", "--command", "--", "/bin/false")
    shows(kubectl, "loop", "CrashLoopBackOff")

    def second() -> Any:
        status = container_of(kubectl, "loop")
        message = status["state"].get("waiting", {}).get("message", "")
        return message.startswith("back-off 20s restarting failed container=loop pod=loop_") and status

    status = until(second, "it was restarted twice", why=kubectl.state)
    assert status["restartCount"] == 2
    assert status["lastState"]["terminated"]["exitCode"] == 1
    kubectl("delete", "pod", "loop", "--timeout=20s")


def test_init_containers_and_probes_are_waited_for(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "examples/hollow-pods.yml")
    shows(kubectl, "fails-for-good", "Error")
    until(lambda: container_of(kubectl, "initializes").get("ready"), "it is initialized", why=kubectl.state)
    proxy, setup = kubectl.get("pods", "initializes")["status"]["initContainerStatuses"]
    waited = parse_time(setup["state"]["terminated"]["startedAt"]) - parse_time(proxy["state"]["running"]["startedAt"])
    assert waited >= 3
    until(lambda: container_of(kubectl, "hangs").get("restartCount"), "it is killed and restarted", why=kubectl.state)
    reasons = [reason for reason, _ in events_about(kubectl, "hangs")]
    assert {"Unhealthy", "Killing"} <= set(reasons)
    kubectl("delete", "-f", "examples/hollow-pods.yml", "--timeout=30s")


def test_webhook_in_hollow_pods_is_refused_at_once_and_admits_by_annotation(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "hook", "--image=hook:1", "--port=9443")
    kubectl("expose", "deployment", "hook", "--port=443", "--target-port=9443")
    kubectl.until_pods(1, "app=hook")
    name = f"{kubectl.namespace}.example.com"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {
        "name": name,
        "clientConfig": {"service": {"namespace": kubectl.namespace, "name": "hook"}},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kubectl.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kubectl.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }
    )
    try:
        refused = kubectl.run("create", "configmap", "x")
        assert refused.returncode == 1
        assert f'failed calling webhook "{name}"' in refused.stderr
        assert f'the pods of service "{kubectl.namespace}/hook" are hollow' in refused.stderr
        kubectl("annotate", "service", "hook", "hollow.kcm.dev/webhook=admit")
        kubectl("create", "configmap", "x")
    finally:
        kubectl("delete", "validatingwebhookconfiguration", name)
