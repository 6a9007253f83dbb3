"""The official Python client against the `cluster` fixture, with the controllers of kcm."""

from pathlib import Path
from typing import Any

from kubernetes import client, config, watch

from kcm import ControllerSystem, api_transport

LABELS = {"app": "client-example"}


def test_deployment_of_the_official_client_becomes_ready(kubeconfig: Path) -> None:
    container = client.V1Container(name="web", image="nginx")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=LABELS), spec=client.V1PodSpec(containers=[container])
    )
    deployment = client.V1Deployment(
        metadata=client.V1ObjectMeta(name="client-example"),
        spec=client.V1DeploymentSpec(
            replicas=3, selector=client.V1LabelSelector(match_labels=LABELS), template=template
        ),
    )
    with (
        config.new_client_from_config(str(kubeconfig)) as api,
        api_transport(kubeconfig) as transport,
        ControllerSystem(transport=transport),
    ):
        apps = client.AppsV1Api(api)
        apps.create_namespaced_deployment("default", deployment)
        events = watch.Watch().stream(apps.list_namespaced_deployment, "default", timeout_seconds=40)
        assert any(event["object"].status.ready_replicas == 3 for event in events)
        pods: Any = client.CoreV1Api(api).list_namespaced_pod("default", label_selector="app=client-example")
        assert [pod.status.phase for pod in pods.items] == ["Running"] * 3
