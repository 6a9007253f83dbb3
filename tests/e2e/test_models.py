"""A controller in `async def` over a resource with a model; the API server is a process of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from kcm import ControllerSpec, ControllerSystem, Key, Queue, RequeueAfter, Resource, Tables, Watch, api_transport
from kcm.actors.app.local_cluster import start_local_cluster
from kcm.commands import record
from kcm.objects import ObjectMeta
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.specs import itself
from kcm.steps import Retry, TerminalError, call, ensure
from tests.e2e.kubectl import Api
from tests.e2e.programs import until


@dataclass(frozen=True)
class Page:
    metadata: ObjectMeta
    data: dict[str, str] | None = None


PAGES = Resource(version="v1", plural="configmaps", kind="ConfigMap", model=Page)
PATH = "/api/v1/namespaces/default/configmaps"


class Greeter:
    def __init__(self, tables: Tables) -> None:
        self._pages = tables[PAGES]
        self.tries: dict[str, int] = {}

    async def reconcile(self, key: Key) -> RequeueAfter | None:
        page = self._pages.get(key)
        if page is None or page.data is None or "who" not in page.data or "greeting" in page.data:
            return None
        name = page.metadata.name
        self.tries[name] = self.tries.get(name, 0) + 1
        if page.data["who"] == "nobody":
            raise TerminalError("no one to greet")
        if self.tries[name] < 3:
            raise Retry("not yet", after=0.05)
        greeting = await call(self.greeting, page.data["who"])
        mine = Page(ObjectMeta(name=name, namespace="default"), {"greeting": greeting})
        greeted = await ensure(self._pages, mine)
        await record(PAGES, greeted, "Normal", "Greeted", greeting)
        return None

    async def greeting(self, who: str) -> str:
        await asyncio.sleep(0)
        return f"hello {who}"


def test_a_coroutine_greets_by_models(tmp_path: Path) -> None:
    greeters: list[Greeter] = []

    def build(tables: Tables) -> Greeter:
        greeters.append(Greeter(tables))
        return greeters[-1]

    spec = ControllerSpec(
        name="greeter-controller",
        queues=(Queue(watches=(Watch(PAGES, to=itself),), concurrency=2, events_first=True),),
        build=lambda context: build(context.tables),
    )
    with start_local_cluster(ServerSettings(directory=tmp_path / "kcm")) as cluster:
        api = Api(cluster.kubeconfig)
        for name in ("anna", "nobody"):
            api.request("POST", PATH, {"metadata": {"name": name}, "data": {"who": name}})
        with api_transport(cluster.kubeconfig) as transport, ControllerSystem(transport=transport, controllers=(spec,)):
            until(lambda: data(api, "anna").get("greeting") == "hello anna", "Anna is greeted")
            until(lambda: any(event["reason"] == "Greeted" for event in events(api)), "and that is recorded")
    (greeter,) = greeters
    assert greeter.tries == {"anna": 3, "nobody": 1}


def data(api: Api, name: str) -> dict[str, str]:
    found: dict[str, str] = api.get(f"{PATH}/{name}")["data"]
    return found


def events(api: Api) -> list[dict[str, str]]:
    found: list[dict[str, str]] = api.get("/api/v1/namespaces/default/events")["items"]
    return found
