from __future__ import annotations

from pathlib import Path

import pytest

from kcm.runtime.client.config import ClientConfig, ConfigError, Credential
from kcm.runtime.client.connection_settings import in_cluster_config, is_in_cluster, load_config
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.simulation.clock import VirtualClock

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: k}}]
clusters: [{name: k, cluster: {server: "https://from-file"}}]
"""


def load(
    service_account: Path, environ: dict[str, str], *, kubeconfig: str | None = None, master: str | None = None
) -> ClientConfig:
    return load_config(
        kubeconfig=kubeconfig,
        master=master,
        environ=environ,
        clock=VirtualClock(),
        metrics=Metrics(),
        service_account=service_account,
    )


@pytest.mark.parametrize("kubeconfig", [None, ""])
def test_missing_configuration_outside_a_pod_is_reported(service_account: Path, kubeconfig: str | None) -> None:
    with pytest.raises(ConfigError, match="neither --kubeconfig nor --master is given"):
        load(service_account, {"KUBECONFIG": "/not/looked/at"}, kubeconfig=kubeconfig, master="")


def test_master_alone_sends_no_credentials(service_account: Path) -> None:
    config = load(service_account, POD, master="http://localhost:8080/")
    assert (config.server, config.origin, config.ca) == ("http://localhost:8080", "--master", None)
    assert config.credentials.load() == Credential()


@pytest.mark.parametrize(
    ("master", "server"), [(None, "https://from-file"), ("https://from-flag", "https://from-flag")]
)
def test_kubeconfig_overrides_the_pod_and_master_overrides_its_server(
    service_account: Path, tmp_path: Path, master: str | None, server: str
) -> None:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    assert load(service_account, POD, kubeconfig=str(path), master=master).server == server


POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_uses_its_service_account(service_account: Path) -> None:
    config = in_cluster_config(POD, service_account=service_account)
    assert (config.server, config.origin) == ("https://10.96.0.1:443", "in-cluster")
    assert config.credentials.load().authorization == "Bearer pod-token"
    assert config.ca is not None
    assert config.ca.read() == b"pod-ca"


def test_an_ipv6_service_host_is_put_in_brackets(service_account: Path) -> None:
    assert (
        in_cluster_config({**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"}, service_account=service_account).server
        == "https://[fd00::1]:443"
    )


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_missing_file_of_the_service_account_is_named(service_account: Path, name: str) -> None:
    (service_account / name).unlink()
    with pytest.raises(ConfigError, match=f"^in-cluster: {name}: cannot read .*{name}: No such file"):
        in_cluster_config(POD, service_account=service_account)


@pytest.mark.parametrize(
    ("environ", "inside"),
    [
        (POD, True),
        ({}, False),
        ({"KUBERNETES_SERVICE_HOST": "x"}, False),
        ({**POD, "KUBERNETES_SERVICE_PORT": ""}, False),
    ],
)
def test_pod_is_detected_by_host_and_port_in_the_environment(environ: dict[str, str], inside: bool) -> None:
    assert is_in_cluster(environ) is inside


@pytest.mark.parametrize("name", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
def test_a_missing_variable_of_the_environment_is_an_error_that_names_it(service_account: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"^in-cluster: not in a cluster: {name} is not set"):
        in_cluster_config({**POD, name: ""}, service_account=service_account)
