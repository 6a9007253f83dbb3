"""Plan of the tables of a system, and the objects that each controller sees in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from kcm.actors.app.tables import TablePlan, plan_tables
from kcm.actors.options import Options
from kcm.actors.reconciliation import Interest, Read, Watch, ensure, itself
from kcm.actors.reconciliation.derived import frozen_table
from kcm.actors.reconciliation.specs import ControllerSpec, Facts, Index, Queue
from kcm.actors.simulation.driver import Bench, drive_steps
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PODS, Resource
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables
from tests.support.objects import pod

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")


def spec(name: str, *watches: Watch[Any], reads: tuple[Any, ...] = (), **more: Any) -> ControllerSpec:
    return ControllerSpec(name=name, build=lambda _context: None, queues=(Queue(watches=watches),), reads=reads, **more)


def planned(*specs: ControllerSpec, enabled: tuple[str, ...] | None = None) -> TablePlan:
    names = tuple(spec.name for spec in specs) if enabled is None else enabled
    return plan_tables(specs, options=Options(), enabled=names, make_table=frozen_table)


def fill(table: Table, *objects: Object) -> None:
    entries = [table.make_entry(obj, encode_object(obj)) for obj in objects]
    table.claim().replace(entries, 100)


def lister(plan: TablePlan, controller: str, resource: Resource) -> Lister:
    return Tables(plan.seen[controller])[resource]


def names(found: list[Object]) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in found)


WEB, DB = {"labels": {"app": "web"}}, {"labels": {"app": "db"}}


def test_whole_table_serves_narrower_selections_and_each_controller_sees_its_own() -> None:
    plan = planned(
        spec("all", Watch(PODS, to=itself)),
        spec("web", Watch(PODS, to=itself, labels="app=web")),
        spec("meta", Watch(PODS, to=itself, metadata_only=True)),
        spec("there", reads=(Read(PODS, namespaces=("shop",)),)),
    )
    assert list(plan.tables) == ["v1/pods"]
    fill(
        plan.tables["v1/pods"],
        pod("a", version=1, metadata=WEB, node="n1"),
        pod("b", version=1, metadata=DB),
        pod("c", version=1, metadata={**WEB, "namespace": "shop"}),
    )
    assert names(lister(plan, "all", PODS).objects()) == ["a", "b", "c"]
    web = lister(plan, "web", PODS)
    assert names(web.objects()) == ["a", "c"]
    assert names(web.objects("shop")) == ["c"]
    assert names(web.orphans("default")) == ["a"]
    assert web.get("default/b") is None
    meta = lister(plan, "meta", PODS)
    found, entry = meta.get("default/a"), meta.entry("default/a")
    assert found is not None
    assert list(found) == ["metadata"]
    assert entry is not None
    assert entry.facts is None
    assert b"spec" not in entry.raw
    assert names(meta.objects()) == ["a", "b", "c"]
    assert names(lister(plan, "there", PODS).objects()) == ["c"]
    assert lister(plan, "there", PODS).get("default/a") is None


def test_single_controller_has_a_table_of_its_selection_only() -> None:
    plan = planned(spec("web", Watch(PODS, to=itself, labels="app=web", namespaces=("shop", "blog"))))
    assert list(plan.tables) == ["v1/pods?namespace=blog&labels=app=web", "v1/pods?namespace=shop&labels=app=web"]
    fill(
        plan.tables["v1/pods?namespace=blog&labels=app=web"], pod("a", version=1, metadata={**WEB, "namespace": "blog"})
    )
    assert not lister(plan, "web", PODS).synced
    fill(
        plan.tables["v1/pods?namespace=shop&labels=app=web"], pod("b", version=1, metadata={**WEB, "namespace": "shop"})
    )
    web = lister(plan, "web", PODS)
    assert web.synced
    assert names(web.objects()) == ["a", "b"]
    assert names(web.objects("shop")) == ["b"]


def test_ensure_refuses_objects_outside_the_selection() -> None:
    plan = planned(spec("web", Watch(PODS, to=itself, labels="app=web", namespaces=("shop",))))
    table = next(iter(plan.tables.values()))
    fill(table)
    pods = lister(plan, "web", PODS)
    wanted = {"metadata": {"name": "a", "namespace": "shop", "labels": {"app": "web"}}}
    drive_steps(ensure(pods, wanted), lambda _command: Done(encode_object(pod("a", version=1))), tables=Tables({}))
    for meta in ({"namespace": "default"}, {"labels": {"app": "db"}}):
        asked = {"metadata": {**wanted["metadata"], **meta}}
        with pytest.raises(ValueError, match="selects only objects in shop, with app=web"):
            drive_steps(ensure(pods, asked), lambda _command: Done(b"{}"), tables=Tables({}))


def test_disabled_controller_widens_no_watch_and_uses_existing_tables() -> None:
    plan = planned(
        spec("off", Watch(PODS, to=itself)),
        spec("on", Watch(PODS, to=itself, namespaces=("shop",))),
        spec("off too", Watch(PODS, to=itself, namespaces=("shop",), labels="app=web")),
        enabled=("on",),
    )
    assert list(plan.tables) == ["v1/pods", "v1/pods?namespace=shop"]
    fill(plan.tables["v1/pods?namespace=shop"], pod("a", version=1, metadata={**WEB, "namespace": "shop"}))
    assert names(lister(plan, "on", PODS).objects()) == ["a"]
    assert lister(plan, "off", PODS).objects() == []


def test_controller_sees_the_union_of_its_watches_and_reads() -> None:
    plan = planned(
        spec("one", Watch(PODS, to=itself, labels="app=web"), reads=(PODS,)),
        spec(
            "two",
            Watch(CONFIGMAPS, to=itself, namespaces=("a",)),
            Watch(CONFIGMAPS, to=itself, namespaces=("b",)),
            Watch(CONFIGMAPS, to=itself, namespaces=("b",), labels="x"),
        ),
    )
    assert list(plan.tables) == ["v1/pods", "v1/configmaps?namespace=a", "v1/configmaps?namespace=b"]
    fill(plan.tables["v1/pods"], pod("a", version=1, metadata=WEB), pod("b", version=1, metadata=DB))
    assert names(lister(plan, "one", PODS).objects()) == ["a", "b"]
    with pytest.raises(ValueError, match=r"one selects pods in ways .* \(with app=web; with app=db\): a Read"):
        planned(spec("one", Watch(PODS, to=itself, labels="app=web"), Watch(PODS, to=itself, labels="app=db")))


def test_indexes_of_a_controller_contain_its_selection_only() -> None:
    index = Index(PODS, "name", lambda obj: [obj["metadata"]["name"], *(obj.get("spec", {}))])
    plan = planned(
        spec("all", Watch(PODS, to=itself)),
        spec("web", Watch(PODS, to=itself, labels="app=web"), indexes=(index,)),
        spec("meta", Watch(PODS, to=itself, metadata_only=True), indexes=(index,)),
    )
    fill(
        plan.tables["v1/pods"], pod("a", version=1, metadata=WEB, node="n"), pod("b", version=1, metadata=DB, node="n")
    )
    web, meta = lister(plan, "web", PODS), lister(plan, "meta", PODS)
    assert names(web.indexed("name", "a")) == ["a"]
    assert web.indexed("name", "b") == []
    assert names(web.indexed("name", "nodeName")) == ["a"]
    assert names(meta.indexed("name", "b")) == ["b"]
    assert meta.indexed("name", "nodeName") == [], "of the metadata it has no spec"
    with pytest.raises(LookupError, match="have no index 'other'"):
        web.indexed("other", "x")


@dataclass(frozen=True, slots=True)
class Size:
    keys: int


def size(obj: Mapping[str, Any]) -> Size:
    return Size(len(obj.get("data", {})))


def unsaid(obj: Mapping[str, Any]):  # type: ignore[no-untyped-def]
    return obj


def test_spec_may_declare_facts_of_its_resource() -> None:
    watch = Watch(CONFIGMAPS, to=itself, interest=Interest(changed=("keys",)))
    plan = planned(spec("sizes", watch, facts=(Facts(CONFIGMAPS, size),)), spec("other", reads=(CONFIGMAPS,)))
    fill(
        plan.tables["v1/configmaps"],
        {"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"}, "data": {"x": ""}},
    )
    entry = lister(plan, "sizes", CONFIGMAPS).entry("n/a")
    assert entry is not None
    assert entry.facts == Size(1)
    bench = Bench({CONFIGMAPS: [{"metadata": {"name": "a", "namespace": "n"}}]}, facts=(Facts(CONFIGMAPS, size),))
    assert [entry.facts for entry in bench.tables[CONFIGMAPS].entries()] == [Size(0)]
    with pytest.raises(ValueError, match="sizes watches configmaps by an unknown fact: 'keys'"):
        planned(spec("sizes", watch))
    with pytest.raises(ValueError, match="sizes watches configmaps by an unknown fact: 'keys'"):
        planned(
            spec(
                "sizes",
                Watch(CONFIGMAPS, to=itself, metadata_only=True, interest=Interest(changed=("keys",))),
                facts=(Facts(CONFIGMAPS, size),),
            )
        )
    with pytest.raises(ValueError, match="mine derives facts of pods, and they have facts already"):
        planned(spec("mine", Watch(PODS, to=itself), facts=(Facts(PODS, size),)))
    with pytest.raises(TypeError, match="derive is annotated to return a dataclass or named tuple"):
        Facts(CONFIGMAPS, unsaid)


def test_namespaces_may_follow_from_options() -> None:
    def chosen(options: Options) -> tuple[str, ...] | None:
        return tuple(options.generic.controllers) if "*" not in options.generic.controllers else None

    watch = Watch(PODS, to=itself, namespaces=chosen)
    assert list(planned(spec("one", watch)).tables) == ["v1/pods"]
    with pytest.raises(TypeError, match="one: namespaces of a watch of pods: expected some or None, got the text"):
        planned(spec("one", Watch(PODS, to=itself, namespaces=lambda _options: "shop")))
    with pytest.raises(TypeError, match="namespaces of a watch of pods depend on options"):
        _ = watch.selection


def test_index_of_an_interest_must_belong_to_its_selective_controller() -> None:
    index = Index(PODS, "mine", lambda _obj: ())
    interest = Interest(indexed=(("mine", "x"),))
    planned(spec("one", indexes=(index,)), spec("all", Watch(PODS, to=itself, interest=interest)))
    with pytest.raises(ValueError, match="web watches pods by an unknown index: 'mine'"):
        planned(spec("one", indexes=(index,)), spec("web", Watch(PODS, to=itself, interest=interest, labels="app=web")))
