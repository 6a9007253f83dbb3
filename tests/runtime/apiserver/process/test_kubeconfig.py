from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kcm.runtime.apiserver.process.kubeconfig import KubeconfigUnreadableError, last_port, update_kubeconfig


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


def update(path: Path, *, port: int = 7000, token: str = "t") -> dict[str, Any]:
    update_kubeconfig(path, url=f"https://127.0.0.1:{port}", authority=b"PEM", token=token)
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def test_new_kubeconfig_contains_the_server(path: Path) -> None:
    config = update(path)
    assert config == {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "kcm", "cluster": {"server": "https://127.0.0.1:7000", "certificate-authority-data": "UEVN"}}
        ],
        "users": [{"name": "kcm", "user": {"token": "t"}}],
        "contexts": [{"name": "kcm", "context": {"cluster": "kcm", "user": "kcm"}}],
        "current-context": "kcm",
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert last_port(path) == 7000


def test_entries_of_users_are_kept(path: Path) -> None:
    config = update(path)
    config["contexts"][0]["context"]["namespace"] = "shop"
    config["contexts"].append({"name": "dev", "context": {"cluster": "other", "user": "other", "namespace": "dev"}})
    config["clusters"].insert(0, {"name": "other", "cluster": {"server": "https://example.com"}})
    config["users"].append({"name": "other", "user": {"token": "theirs"}})
    config["preferences"] = {"colors": True}
    config["current-context"] = "dev"
    path.write_text(yaml.safe_dump(config))
    after = update(path, port=7001, token="new")
    config["clusters"][1]["cluster"]["server"] = "https://127.0.0.1:7001"
    config["users"][0]["user"]["token"] = "new"
    assert after == config
    assert last_port(path) == 7001


def test_current_kubeconfig_is_not_rewritten(path: Path) -> None:
    update(path)
    path.write_text("# mine\n" + path.read_text())
    update(path)
    assert path.read_text().startswith("# mine\n")


def test_missing_current_context_is_replaced(path: Path) -> None:
    config = update(path)
    path.write_text(yaml.safe_dump({**config, "current-context": "gone", "contexts": None}))
    assert update(path) == config


@pytest.mark.parametrize("text", ["a: [", "- 1", "clusters: 3", "users: [1]", "\x00"])
def test_invalid_kubeconfig_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(KubeconfigUnreadableError):
        update(path)
    assert path.read_text() == text
    assert last_port(path) == 0


@pytest.mark.parametrize("server", ["https://127.0.0.1", "https://127.0.0.1:x", "7", ""])
def test_server_url_without_port_has_no_last_port(path: Path, server: str) -> None:
    path.write_text(yaml.safe_dump({"clusters": [{"name": "kcm", "cluster": {"server": server}}]}))
    assert last_port(path) == 0
    assert last_port(path.with_name("missing")) == 0
