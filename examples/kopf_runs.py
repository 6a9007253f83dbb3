"""Runs of operators that are written with kopf, in tests beside those that are written with kcm."""

import importlib
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kopf
import pytest
import yaml
from kubernetes import client, config, utils


def registry_of(module: str) -> kopf.OperatorRegistry:
    """Import the module, and return a registry of its handlers alone."""
    usual, own = kopf.get_default_registry(), kopf.OperatorRegistry()
    kopf.set_default_registry(own)
    try:
        importlib.import_module(module)
    finally:
        kopf.set_default_registry(usual)
    return own


@contextmanager
def kopf_running(registry: kopf.OperatorRegistry, **memo: Any) -> Iterator[None]:
    """Run the operator in a thread, with the kubeconfig that the environment names."""
    stop = threading.Event()
    arguments = {"standalone": True, "clusterwide": True, "registry": registry, "stop_flag": stop}
    thread = threading.Thread(target=kopf.run, kwargs={**arguments, "memo": kopf.Memo(**memo)})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()


@contextmanager
def with_rights(kubeconfig: Path, account: str) -> Iterator[None]:
    """Let the environment name a kubeconfig of this service account, which has the rights of its role's file alone."""
    role = f"{account.replace('-', '_')}_kopf_role.yml"
    with config.new_client_from_config(str(kubeconfig)) as api:
        utils.create_from_yaml(api, str(Path(__file__).with_name(role)))
        request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
        issued: Any = client.CoreV1Api(api).create_namespaced_service_account_token(account, "default", request)
    own = yaml.safe_load(kubeconfig.read_text())
    own["users"][0]["user"] = {"token": issued.status.token}
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file, pytest.MonkeyPatch.context() as patch:
        yaml.safe_dump(own, file)
        file.flush()
        patch.setenv("KUBECONFIG", file.name)
        yield
