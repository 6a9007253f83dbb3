"""Tests of how flags name a manager and the credentials to use there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from kcm.actors.command.embedded_directory import MANAGER_KUBECONFIG
from kcm.actors.command.manager_access import manager_kubeconfig
from kcm.actors.command.manager_client import ManagerAddress, manager_config
from kcm.runtime.client.config import ClientConfig, ConfigError
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock


@pytest.fixture
def clock() -> Iterator[SystemClock]:
    clock = SystemClock()
    yield clock
    clock.close()


def config_of(clock: SystemClock, **flags: str | bool) -> ClientConfig:
    return manager_config(ManagerAddress(**flags), environ={}, clock=clock, metrics=Metrics())  # type: ignore[arg-type]


def test_manager_of_an_embedded_cluster_is_found_by_its_directory(tmp_path: Path, clock: SystemClock) -> None:
    content = manager_kubeconfig("https://127.0.0.1:10257", "secret", "PEM")
    assert orjson.loads(content)["current-context"] == "kcm"
    (tmp_path / MANAGER_KUBECONFIG).write_bytes(content)
    config = config_of(clock, embedded_dir=str(tmp_path))
    assert (config.server, config.verify) == ("https://127.0.0.1:10257", True)
    assert config.ca is not None
    assert config.ca.read() == b"PEM"
    assert config.credentials.load().authorization == "Bearer secret"


def test_directory_without_a_running_manager_is_an_error(tmp_path: Path, clock: SystemClock) -> None:
    with pytest.raises(ConfigError, match=f"no manager of an embedded cluster runs in {tmp_path}"):
        config_of(clock, embedded_dir=str(tmp_path))


def test_flags_replace_server_credentials_and_authority(tmp_path: Path, clock: SystemClock) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_bytes(manager_kubeconfig("https://10.0.0.1:6443", "of-the-file", "PEM"))
    config = config_of(clock, server="10.0.0.7:10257", kubeconfig=str(kubeconfig))
    assert config.server == "https://10.0.0.7:10257"
    assert config.credentials.load().authorization == "Bearer of-the-file"
    (tmp_path / "ca").write_text("AUTHORITY")
    config = config_of(clock, server="https://m:1", token="mine", certificate_authority=str(tmp_path / "ca"))
    assert config.credentials.load().authorization == "Bearer mine"
    assert config.ca is not None
    assert config.ca.read() == b"AUTHORITY"
    config = config_of(clock, server="https://m:1", client_certificate="c.pem", client_key="k.pem")
    assert config.certificate is not None
    assert config.key is not None
    assert (config.certificate.path, config.key.path) == ("c.pem", "k.pem")
    config = config_of(clock, kubeconfig=str(kubeconfig), insecure_skip_tls_verify=True)
    assert (config.verify, config.ca) == (False, None)


def test_certificate_without_its_key_is_an_error(clock: SystemClock) -> None:
    with pytest.raises(ConfigError, match="--client-certificate and --client-key are given together"):
        config_of(clock, server="https://m:1", client_certificate="c.pem")
