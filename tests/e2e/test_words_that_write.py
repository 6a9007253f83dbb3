"""The words that write, over HTTPS: on the embedded API server, and on a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kcm import (
    ControllerSpec,
    ControllerSystem,
    Key,
    LocalCluster,
    Queue,
    Reconciliation,
    Resource,
    Tables,
    Watch,
    api_transport,
)
from kcm.commands import apply, delete
from kcm.objects import finalizers_of, is_deleting, own, owned, set_condition
from kcm.outcomes import Conflict
from kcm.specs import Change, itself
from kcm.steps import ensure, ensure_finalizer, must, patch_status, perform, remove_finalizer
from tests.e2e.kubectl import Api
from tests.e2e.programs import until
from tests.e2e.real_server import assets_or_skip, real_server

SHOPS = Resource(group="example.com", version="v1", plural="shops", kind="Shop")
CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
TOLD = "example.com/told"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Shops:
    """A ConfigMap of its goods, one that it shares with others, and a status."""

    def __init__(self, *, tables: Tables, now: Callable[[], float]) -> None:
        self._shops, self._configmaps, self._now = tables[SHOPS], tables[CONFIGMAPS], now

    def reconcile(self, key: Key) -> Reconciliation:
        shop = self._shops.get(key)
        if shop is None:
            return None
        if is_deleting(shop):
            if TOLD in finalizers_of(shop):
                for each in owned(self._configmaps, by=shop):
                    yield from must(delete(CONFIGMAPS, each))
                yield from remove_finalizer(self._shops, shop, TOLD)
            return None
        shop = yield from ensure_finalizer(self._shops, shop, TOLD)
        goods = {"metadata": {"name": "goods"}, "data": shop["spec"]["goods"]}
        yield from ensure(self._configmaps, own(goods, by=shop, of=SHOPS))
        data = dict.fromkeys(shop["spec"]["goods"], "x")
        shared = {"metadata": {"name": "shared", "namespace": "default"}, "data": data}
        clash = isinstance((yield from perform(apply(CONFIGMAPS, shared))), Conflict)
        before = shop.get("status", {}).get("conditions")
        conditions = set_condition(before, "Shared", not clash, "Applied" if not clash else "Clash", now=self._now())
        yield from patch_status(self._shops, shop, {"goods": len(shop["spec"]["goods"]), "conditions": conditions})
        return None


def the_shop(_change: Change, _tables: Tables) -> tuple[Key, ...]:
    return ("default/blue",)


SPEC = ControllerSpec(
    name="shops",
    queues=(Queue(watches=(Watch(SHOPS, to=itself), Watch(CONFIGMAPS, to=the_shop))),),
    build=lambda context: Shops(tables=context.tables, now=context.clock.now),
)


@pytest.fixture
def on_embedded(tmp_path: Path) -> Iterator[Path]:
    with LocalCluster.start(tmp_path) as cluster:
        yield cluster.kubeconfig


@pytest.fixture
def on_real(tmp_path: Path) -> Iterator[Path]:
    assets = assets_or_skip()
    with real_server(tmp_path, assets) as server:
        yield server.kubeconfig


@pytest.mark.parametrize("server", ["on_embedded", pytest.param("on_real", marks=pytest.mark.cluster)])
def test_the_words_do_the_same_on_every_server(server: str, request: pytest.FixtureRequest) -> None:
    kubeconfig: Path = request.getfixturevalue(server)
    api = Api(kubeconfig)
    shops, configmaps = "/apis/example.com/v1/namespaces/default/shops", "/api/v1/namespaces/default/configmaps"

    def get(path: str) -> Any:
        try:
            return api.get(path)
        except OSError:
            return {}

    def change(path: str, **fields: Any) -> None:
        """Change an object as `kubectl edit` does."""

        def written() -> bool:
            try:
                return bool(api.request("PUT", path, {**api.get(path), **fields}))
            except OSError:
                return False

        until(written, f"{path} is changed")

    def goes_on(what: str, condition: Callable[[], Any]) -> None:
        until(condition, what, why=lambda: str(get(f"{shops}/blue")))

    api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    until(lambda: "items" in get(shops), "shops are served")
    with api_transport(kubeconfig) as transport, ControllerSystem(transport=transport, controllers=(SPEC,)):
        blue = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "blue"}}
        api.request("POST", shops, {**blue, "spec": {"goods": {"tea": "5", "milk": "1"}}})
        goes_on("its status says what it has", lambda: get(f"{shops}/blue").get("status", {}).get("goods") == 2)
        assert get(f"{configmaps}/goods")["data"] == {"tea": "5", "milk": "1"}
        shared = get(f"{configmaps}/shared")
        assert shared["data"] == {"tea": "x", "milk": "x"}
        assert [entry["manager"] for entry in shared["metadata"]["managedFields"]] == ["shops"]

        change(f"{shops}/blue", spec={"goods": {"tea": "6"}})
        goes_on("what it applies no more goes", lambda: get(f"{configmaps}/shared")["data"] == {"tea": "x"})
        goes_on("what differs is patched", lambda: get(f"{configmaps}/goods")["data"] == {"tea": "6", "milk": "1"})

        change(f"{configmaps}/goods", data={"tea": "0"})
        goes_on("what it ensures is written back", lambda: get(f"{configmaps}/goods")["data"]["tea"] == "6")
        change(f"{configmaps}/shared", data={"tea": "mine"})
        goes_on("it meets a conflict", lambda: get(f"{shops}/blue")["status"]["conditions"][0]["reason"] == "Clash")
        assert get(f"{configmaps}/shared")["data"] == {"tea": "mine"}

        api.request("DELETE", f"{shops}/blue")
        goes_on("it goes", lambda: not get(f"{shops}/blue"))
        assert not get(f"{configmaps}/goods")
