"""An operator with a Role in two namespaces, and no right beyond them, on a real kube-apiserver with RBAC.

Mirror selects ConfigMaps by label in both, and reads the metadata of its Secrets; its Lease is in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.connection import api_transport
from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.elector import Election
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.objects import labels_of
from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.runtime.client.api import Request, Response, Stream, Transport
from tests.e2e.kubectl import Api
from tests.e2e.programs import until
from tests.e2e.real_server import RealServer
from tests.support.mirror import LABEL, MIRROR, NAMESPACES, OF, WHOLE, mirror

RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch", "create", "delete"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Listening:
    """Implements Transport, and keeps what was asked for and how the server answered that it may not be."""

    def __init__(self, through: Transport) -> None:
        self._through = through
        self.paths: set[str] = set()
        self.accepted: dict[str, str] = {}
        self.refused: list[str] = []

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        self.paths.add(request.path)

        def heard(response: Response) -> None:
            self._note(request, response)
            on_response(response)

        self._through.send(request, client=client, on_response=heard)

    def watch(self, request: Request, *, client: str, on_lines: Any, on_end: Callable[[Response], None]) -> Stream:
        self.paths.add(request.path)
        self.accepted[request.path] = request.accept

        def heard(response: Response) -> None:
            self._note(request, response)
            on_end(response)

        return self._through.watch(request, client=client, on_lines=on_lines, on_end=heard)

    def _note(self, request: Request, response: Response) -> None:
        if response.status in (401, 403):
            self.refused.append(f"{request.method} {request.path}")


@pytest.fixture
def operators(real: RealServer, tmp_path: Path) -> Path:
    """The kubeconfig of a service account that has a Role in each of the namespaces."""
    admin = Api(real.kubeconfig)
    account = {"kind": "ServiceAccount", "name": "operator", "namespace": "shop"}
    for namespace in NAMESPACES:
        admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        role = {"metadata": {"name": "operator"}, "rules": RULES}
        admin.request("POST", f"{RBAC}/namespaces/{namespace}/roles", role)
        binding = {
            "metadata": {"name": "operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
            "subjects": [account],
        }
        admin.request("POST", f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
    accounts = "/api/v1/namespaces/shop/serviceaccounts"
    admin.request("POST", accounts, {"metadata": {"name": "operator"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = admin.request("POST", f"{accounts}/operator/token", asked)["status"]["token"]
    config = yaml.safe_load(real.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    return kubeconfig


def configmap(api: Api, namespace: str, name: str, app: str) -> None:
    body = {"metadata": {"name": name, "labels": {"app": app}}, "data": {"x": "1" * 100}}
    api.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)


def mirrored(api: Api) -> list[str]:
    secrets = [
        secret for namespace in NAMESPACES for secret in api.get(f"/api/v1/namespaces/{namespace}/secrets")["items"]
    ]
    return sorted(secret["metadata"]["annotations"][OF] for secret in secrets if LABEL in labels_of(secret))


def system_of(transport: Transport, spec: ControllerSpec, log: FilteringBoundLogger) -> ControllerSystem:
    election = Election(identity="one", namespace="shop", name=spec.name)
    return ControllerSystem(transport=transport, controllers=(spec,), election=election, log=log)


def tell_a_story(admin: Api, transport: Listening, log: FilteringBoundLogger) -> None:
    """The operator does its work in its namespaces, of secrets by their metadata."""
    configmap(admin, "shop", "a", "web")
    configmap(admin, "blog", "b", "web")
    configmap(admin, "blog", "c", "db")
    configmap(admin, "default", "d", "web")
    with system_of(transport, mirror(), log) as system:
        until(lambda: mirrored(admin) == ["blog/b", "shop/a"], "what is selected has its mirror")
        path = "/api/v1/namespaces/blog/configmaps"
        admin.request("PUT", f"{path}/b", {"metadata": {"name": "b", "labels": {"app": "db"}}})
        admin.request("PUT", f"{path}/c", {"metadata": {"name": "c", "labels": {"app": "web"}}})
        until(lambda: mirrored(admin) == ["blog/c", "shop/a"], "who leaves is gone, and who enters is there")
        until(lambda: not [why for check in system.checks().values() if (why := check())], "all is well")
        table = system.tables["v1/secrets?namespace=blog&labels=example.com/mirror&metadata"]
        until(lambda: len(table) == 1, "the mirror is in the table")
        assert all(b'"data"' not in entry.raw for entry in table.entries())
    assert "PartialObjectMetadata" in transport.accepted["/api/v1/namespaces/blog/secrets"]


def beyond_its_namespaces(paths: Iterable[str]) -> list[str]:
    theirs = tuple(f"/namespaces/{namespace}/" for namespace in NAMESPACES)
    return [path for path in paths if not any(part in path for part in theirs)]


def test_on_the_embedded_server_an_operator_asks_for_nothing_beyond_its_namespaces(
    tmp_path: Path, log: FilteringBoundLogger
) -> None:
    server = launch(ServerSettings(directory=tmp_path / "kcm"))
    try:
        admin = Api(server.kubeconfig)
        for namespace in NAMESPACES:
            admin.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        with api_transport(server.kubeconfig) as through:
            transport = Listening(through)
            tell_a_story(admin, transport, log)
        assert beyond_its_namespaces(transport.paths) == []
    finally:
        server.stop()


@pytest.mark.cluster
@pytest.mark.slow
def test_an_operator_with_a_role_in_its_namespaces_runs_and_asks_for_nothing_else(
    real: RealServer, operators: Path, log: FilteringBoundLogger
) -> None:
    with api_transport(operators) as through:
        transport = Listening(through)
        tell_a_story(Api(real.kubeconfig), transport, log)
    assert beyond_its_namespaces(transport.paths) == []
    assert transport.refused == []

    # The same account may not list all namespaces, which fails the health check of a controller that does.
    with api_transport(operators) as through:
        transport = Listening(through)
        with system_of(transport, WHOLE, log) as system:
            until(lambda: "GET /api/v1/configmaps" in transport.refused, "the server refuses it")
            assert not system.tables["v1/configmaps"].synced
            check = system.checks()[WHOLE.name]
            until(lambda: "the table of configmaps is not synced" in str(check()), "its health says so")
            assert MIRROR not in system.checks()
