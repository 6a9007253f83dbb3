"""Resources found by discovery over HTTP: the census follows resources that appear, break and are deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.connection import connect
from kcm.actors.app.system import ControllerSystem
from kcm.actors.options import Options
from kcm.protocols.resources import PODS
from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.runtime.client.api import Request, Response, Stream, Transport
from kcm.runtime.client.connection_settings import load_config
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock
from tests.e2e.kubectl import Api
from tests.e2e.programs import until
from tests.support.census import Census, census

THINGS = "/apis/example.com/v1/namespaces/default/things"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OTHERS = ("census-controller", "infrastructure")  # checks that the broken resource does not concern
SILENCE = (
    2.0  # seconds without a sign of life after which a watch is renewed; the health check fails after twice that time
)


class _Refused:
    def cancel(self) -> None:
        pass


class Breakable:
    """Transport whose lists and watches of a collection fail while `broken` names it."""

    def __init__(self, through: Transport) -> None:
        self._through = through
        self.broken = ""
        self.accepted: dict[str, str] = {}  # the newest Accept header of a watch by path

    def send(self, request: Request, *, client: str, on_response: Callable[[Response], None]) -> None:
        if self._is_broken(request):
            on_response(Response(status=500, body=b"{}"))
        else:
            self._through.send(request, client=client, on_response=on_response)

    def watch(self, request: Request, *, client: str, on_lines: Any, on_end: Callable[[Response], None]) -> Stream:
        self.accepted[request.path] = request.accept
        if self._is_broken(request):
            on_end(Response(status=500, body=b"{}"))
            return _Refused()
        return self._through.watch(request, client=client, on_lines=on_lines, on_end=on_end)

    def _is_broken(self, request: Request) -> bool:
        return bool(self.broken) and request.path.endswith(self.broken)


class Scene:
    def __init__(self, api: Api, transport: Breakable, system: ControllerSystem, built: list[Census]) -> None:
        self.api, self.transport, self.system, self._built = api, transport, system, built
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
        api.request("POST", "/api/v1/namespaces/default/configmaps", owner)
        self.owner: str = api.get("/api/v1/namespaces/default/configmaps/owner")["metadata"]["uid"]

    def create(self, path: str, name: str, *, api_version: str, kind: str, **parts: Any) -> None:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": self.owner}
        meta = {"name": name, "ownerReferences": [reference]}
        self.api.request("POST", path, {"apiVersion": api_version, "kind": kind, "metadata": meta, **parts})

    def create_thing(self, name: str) -> None:
        self.create(THINGS, name, api_version="example.com/v1", kind="Thing")

    def create_pod(self, name: str) -> None:
        spec = {"containers": [{"name": "c", "image": "i"}]}
        self.create("/api/v1/namespaces/default/pods", name, api_version="v1", kind="Pod", spec=spec)

    def until_counted(self, expected: dict[str, int]) -> None:
        def counts() -> dict[str, int]:
            return self._built[-1].counts.get(self.owner, {}) if self._built else {}

        until(lambda: counts() == expected, f"counted {expected}", within=40.0, why=lambda: str(counts()))

    def discovery(self) -> str:
        return self.system.checks()["discovery"]() or ""


@pytest.fixture
def scene(tmp_path: Path, log: FilteringBoundLogger) -> Iterator[Scene]:
    server, clock, metrics = launch(ServerSettings(directory=tmp_path / "kcm")), SystemClock(), Metrics()
    config = load_config(kubeconfig=str(server.kubeconfig), master=None, environ={}, clock=clock, metrics=metrics)
    carrier = connect(config, clock=clock, metrics=metrics, log=log)
    options = Options()
    options = replace(options, generic=replace(options.generic, watch_silence_limit=SILENCE))
    built: list[Census] = []
    transport = Breakable(carrier)
    system = ControllerSystem(
        transport=transport, log=log, controllers=(census(built),), options=options, clock=clock, metrics=metrics
    )
    try:
        with system:
            yield Scene(Api(server.kubeconfig), transport, system, built)
    finally:
        carrier.close(1.0)
        clock.close()
        server.stop()


def crd() -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "things.example.com"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


def test_census_continues_while_a_resource_appears_breaks_and_is_deleted(scene: Scene) -> None:
    scene.create_pod("a")
    scene.until_counted({"pods": 1})
    assert "as=PartialObjectMetadata" in scene.transport.accepted["/api/v1/pods"]
    assert b'"containers"' not in scene.system.tables[PODS.id].entries()[0].raw

    scene.api.request("POST", CRDS, crd())
    scene.create_thing("one")
    scene.until_counted({"pods": 1, "things.example.com": 1})

    scene.transport.broken = "/things"
    scene.create_pod("b")
    scene.until_counted({"pods": 2, "things.example.com": 1})
    until(lambda: "the table of things.example.com has not heard" in scene.discovery(), "health names the broken one")
    # A table in which nothing changes is silent for longer than this test's limit: its server sends few bookmarks.
    noise = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "noise"}}
    scene.api.request("POST", "/api/v1/namespaces/default/configmaps", noise)
    until(lambda: not any(scene.system.checks()[name]() for name in OTHERS), "the other checks pass meanwhile")
    scene.create_pod("c")
    scene.until_counted({"pods": 3, "things.example.com": 1})

    scene.transport.broken = ""
    scene.create_thing("two")
    scene.until_counted({"pods": 3, "things.example.com": 2})
    until(lambda: "things" not in scene.discovery(), "health names it no more")

    scene.api.request("DELETE", f"{CRDS}/things.example.com")
    scene.until_counted({"pods": 3})
