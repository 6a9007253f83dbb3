"""An operator written with kopf against the `cluster` fixture."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kopf
import pytest
from kubernetes import client, config, watch

OPERATOR = kopf.OperatorRegistry()


@kopf.on.login(registry=OPERATOR)
def login(**arguments: Any) -> Any:
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.create("configmaps", labels={"greet": kopf.PRESENT}, registry=OPERATOR)
def greet(labels: Any, patch: Any, **_: Any) -> None:
    patch["data"] = {"greeting": f"Hello, {labels['greet']}!"}


@pytest.fixture
def operator(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the operator in a thread during the test."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    stop = threading.Event()
    arguments = {"standalone": True, "namespaces": ["default"], "registry": OPERATOR, "stop_flag": stop}
    thread = threading.Thread(target=kopf.run, kwargs=arguments)
    thread.start()
    yield
    stop.set()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.usefixtures("operator")
def test_kopf_operator_patches_a_new_config_map(kubeconfig: Path) -> None:
    with config.new_client_from_config(str(kubeconfig)) as api:
        core = client.CoreV1Api(api)
        meta = client.V1ObjectMeta(name="visitor", labels={"greet": "world"})
        core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=meta))
        events = watch.Watch().stream(core.list_namespaced_config_map, "default", timeout_seconds=40)
        assert any((event["object"].data or {}).get("greeting") == "Hello, world!" for event in events)
