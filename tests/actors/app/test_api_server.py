"""The API server as a fixture of other programs' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.actors.app.api_server import ApiServer
from kcm.actors.app.connection import api_transport
from kcm.protocols.objects import decode_object, name_of
from kcm.runtime.client.api import Request, Transport

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def config_maps(transport: Transport) -> list[str]:
    response = transport.request(Request(method="GET", path=CONFIGMAPS), client="test", timeout=10.0)
    return [name_of(item) for item in decode_object(response.body)["items"]]


def create(transport: Transport, name: str) -> int:
    body = f'{{"metadata":{{"name":"{name}"}}}}'.encode()
    return transport.request(Request(method="POST", path=CONFIGMAPS, body=body), client="test", timeout=10.0).status


def test_api_server_without_a_directory_leaves_no_files() -> None:
    with ApiServer() as server:
        kubeconfig = server.kubeconfig
        assert server.url.startswith("https://127.0.0.1:")
        with api_transport(kubeconfig) as transport:
            assert create(transport, "a") == 201
            assert config_maps(transport) == ["a"]
        assert not list(kubeconfig.parent.glob("*.db*"))
    assert not kubeconfig.parent.exists()
    with pytest.raises(RuntimeError, match="does not run"):
        _ = server.url


def test_api_server_with_a_directory_keeps_its_objects(tmp_path: Path) -> None:
    server = ApiServer(tmp_path / "kept", durability="relaxed")
    with server, api_transport(server.kubeconfig) as transport:
        assert create(transport, "a") == 201
        with pytest.raises(RuntimeError, match="runs already"):
            server.start()
    with server, api_transport(server.kubeconfig) as transport:
        assert config_maps(transport) == ["a"]
    server.stop()
