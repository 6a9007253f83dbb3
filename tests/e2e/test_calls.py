"""A controller that calls what is outside, in threads and on an event loop; the API server is a process of its own."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from kcm import ControllerSpec, ControllerSystem, Key, Queue, Reconciliation, Resource, Tables, Watch, api_transport
from kcm.actors.app.local_cluster import start_local_cluster
from kcm.commands import patch
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.specs import itself
from kcm.steps import call, must
from tests.e2e.kubectl import Api
from tests.e2e.programs import until

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
PATH = "/api/v1/namespaces/default/configmaps"


class Directory:
    def __init__(self) -> None:
        self.threads: set[str] = set()

    def add(self, name: str) -> str:
        self.threads.add(threading.current_thread().name)
        return f"id of {name}"

    async def confirm(self, identity: str) -> bool:
        self.threads.add(threading.current_thread().name)
        await asyncio.sleep(0)
        return identity.startswith("id of")


class Enrolment:
    def __init__(self, tables: Tables, directory: Directory) -> None:
        self._configmaps, self._directory = tables[CONFIGMAPS], directory

    def reconcile(self, key: Key) -> Reconciliation:
        configmap = self._configmaps.get(key)
        if configmap is None or "identity" in (configmap.get("data") or {}):
            return None
        identity = yield from call(self._directory.add, configmap["metadata"]["name"], timeout=10)
        if (yield from call(self._directory.confirm, identity, timeout=10)):
            yield from must(patch(CONFIGMAPS, key, {"data": {"identity": identity}}))


def test_a_controller_calls_what_is_outside(tmp_path: Path) -> None:
    directory = Directory()
    spec = ControllerSpec(
        name="enrolment-controller",
        queues=(Queue(watches=(Watch(CONFIGMAPS, to=itself),)),),
        build=lambda context: Enrolment(context.tables, directory),
        calls=2,
    )
    with start_local_cluster(ServerSettings(directory=tmp_path / "kcm")) as cluster:
        api = Api(cluster.kubeconfig)
        for name in "abc":
            api.request("POST", PATH, {"metadata": {"name": name}})
        with api_transport(cluster.kubeconfig) as transport, ControllerSystem(transport=transport, controllers=(spec,)):
            until(lambda: identities(api) == ["id of a", "id of b", "id of c"], "all have an identity")
    assert {name.rpartition("-")[0] for name in directory.threads} == {"calls"}
    assert "calls-loop" in directory.threads
    until(
        lambda: not any(thread.name.startswith("calls-") for thread in threading.enumerate()), "its threads have ended"
    )


def identities(api: Api) -> list[str]:
    return sorted(
        config_map["data"]["identity"]
        for config_map in api.get(PATH)["items"]
        if "identity" in (config_map.get("data") or {})
    )
