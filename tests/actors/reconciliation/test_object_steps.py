"""Tests of `ensure` with label selectors, field selectors and namespaces: alone, and in a sharded operator."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import LogCapture

from kcm.actors.app.tables import plan_tables
from kcm.actors.options import Options
from kcm.actors.reconciliation import Reconciliation, RequeueAfter, Watch, ensure, itself
from kcm.actors.reconciliation.derived import frozen_table
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import drive_steps
from kcm.protocols.merge_patches import merge_patched
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Get, Patch
from kcm.protocols.messages.outcomes import AlreadyExists, Done, Outcome
from kcm.protocols.objects import Key, Object, decode_object, encode_object, labels_of
from kcm.protocols.resources import PODS, Resource
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.tables import Tables
from tests.support.objects import pod

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
SHARD_A = {"labels": {"shard": "a"}}


def configmap(name: str = "web", namespace: str = "shop", version: int = 1, **metadata: Any) -> Object:
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version), **metadata}
    return {"metadata": meta, "data": {"a": "1"}}


def seen_by(watch: Watch[Key], *objects: Object) -> Lister:
    """Return the lister of a controller with this watch, after its informer has listed the objects."""
    spec = ControllerSpec(name="c", build=lambda _context: None, queues=(Queue(watches=(watch,)),))
    plan = plan_tables((spec,), options=Options(), enabled=("c",), make_table=frozen_table)
    for table in plan.tables.values():
        in_table = [obj for obj in objects if table.selection.selects(obj)]
        table.claim().replace([table.make_entry(obj, encode_object(obj)) for obj in in_table], 100)
    return Tables(plan.seen["c"])[watch.resource]


def ensured(lister: Lister, wanted: Object, live: Object | None = None) -> list[Command]:
    """Return the commands of `ensure`. live: the object on the server, which the lister may not show."""

    def answer(command: Command) -> Outcome:
        match command:
            case Create() if live is not None:
                return AlreadyExists("it exists")
            case Create(body=body):
                return Done(encode_object(merge_patched(configmap(version=200), decode_object(body))))
            case Patch(body=body):
                shown = live if live is not None else lister.get(command.key)
                patched = merge_patched(shown or {}, decode_object(body))
                return Done(encode_object(merge_patched(patched, {"metadata": {"resourceVersion": "200"}})))
            case Get() if live is not None:
                return Done(encode_object(live))
        raise AssertionError(f"unexpected command: {command}")

    driven = drive_steps(ensure(lister, wanted), answer, tables=Tables({}))
    return driven.commands


PARTIAL = {"metadata": {"name": "web", "namespace": "shop"}, "data": {"a": "2"}}


@pytest.mark.parametrize(
    "watch",
    [
        Watch(CONFIGMAPS, to=itself, labels="shard=a"),
        Watch(CONFIGMAPS, to=itself, labels="shard in (a, b),tier!=cache"),
        Watch(CONFIGMAPS, to=itself, fields="metadata.name=web"),
        Watch(CONFIGMAPS, to=itself, fields="data.a!=9", labels="shard"),
        Watch(CONFIGMAPS, to=itself, namespaces=("blog", "shop"), labels="shard=a"),
    ],
)
def test_visible_object_is_patched_though_wanted_repeats_no_labels(watch: Watch[Key]) -> None:
    lister = seen_by(watch, configmap(**SHARD_A))
    (patch,) = ensured(lister, PARTIAL)
    assert isinstance(patch, Patch)
    assert decode_object(patch.body)["data"] == {"a": "2"}


def test_visible_object_that_does_not_differ_is_left_alone_under_a_selector() -> None:
    lister = seen_by(Watch(CONFIGMAPS, to=itself, labels="shard=a"), configmap(**SHARD_A))
    assert ensured(lister, {"metadata": {"name": "web", "namespace": "shop"}, "data": {"a": "1"}}) == []


@pytest.mark.parametrize(
    ("watch", "metadata", "selection"),
    [
        (Watch(CONFIGMAPS, to=itself, labels="shard=a"), {}, "with shard=a"),
        (Watch(CONFIGMAPS, to=itself, labels="shard=a"), {"labels": {"shard": "b"}}, "with shard=a"),
        (Watch(CONFIGMAPS, to=itself, labels="shard=a"), {"labels": {"shard": None}}, "with shard=a"),
        (Watch(CONFIGMAPS, to=itself, namespaces=("blog",)), SHARD_A, "in blog"),
        (Watch(CONFIGMAPS, to=itself, fields="metadata.name!=web"), {}, "with metadata.name!=web"),
        (Watch(CONFIGMAPS, to=itself, fields="data.a=1"), {}, "with data.a=1"),
    ],
)
def test_object_that_would_not_be_selected_is_not_created(watch: Watch[Key], metadata: Object, selection: str) -> None:
    with pytest.raises(ValueError, match=f"configmaps shop/web is not created: .* only objects {selection}, and would"):
        ensured(seen_by(watch), merge_patched({**PARTIAL}, {}) | {"metadata": {**PARTIAL["metadata"], **metadata}})


@pytest.mark.parametrize("labels", [{"shard": "b"}, {"shard": None}])
def test_object_is_not_patched_out_of_the_selection(labels: Object) -> None:
    lister = seen_by(Watch(CONFIGMAPS, to=itself, labels="shard=a"), configmap(**SHARD_A))
    with pytest.raises(
        ValueError, match=r"configmaps shop/web is not patched: .* only objects with shard=a, and would"
    ):
        ensured(lister, {"metadata": {"name": "web", "namespace": "shop", "labels": labels}})


def test_object_of_another_shard_is_left_alone() -> None:
    # The field is unknown before the creation, so only the live object shows that it is not selected.
    theirs = pod("web", version=9, node="n2")
    lister = seen_by(Watch(PODS, to=itself, fields="spec.nodeName=n1"))
    with pytest.raises(
        CommandError, match=r"pods 'default/web' exists already, and .* with spec\.nodeName=n1"
    ) as raised:
        ensured(lister, {"metadata": {"name": "web", "namespace": "default"}}, live=theirs)
    assert isinstance(raised.value.failure, AlreadyExists)


def test_object_is_moved_into_the_selection_if_wanted_names_its_labels() -> None:
    lister = seen_by(Watch(CONFIGMAPS, to=itself, labels="shard=a"))
    wanted = {"metadata": {"name": "web", "namespace": "shop", **SHARD_A}}
    commands = ensured(lister, wanted, live=configmap(labels={"shard": "b", "tier": "web"}))
    assert [type(command) for command in commands] == [Create, Get, Patch]


# In a cluster: two instances of one operator, each with the objects of its shard.


class Stamping:
    """Reconciler that stamps each ConfigMap of the shard; `wanted` contains only the stamp."""

    def __init__(self, configmaps: Lister, shard: str) -> None:
        self._configmaps, self._shard = configmaps, shard

    def reconcile(self, key: Key) -> Reconciliation:
        shown = self._configmaps.get(key)
        if shown is not None and "touch" in shown["data"]:
            namespace, _, name = key.partition("/")
            meta = {"name": name, "namespace": namespace}
            yield from ensure(self._configmaps, {"metadata": meta, "data": {"stamp": self._shard}})
        return None


def sharded(shard: str) -> ControllerSpec:
    def build(context: ControllerContext) -> Stamping:
        return Stamping(context.tables[CONFIGMAPS], shard)

    queues = (Queue(watches=(Watch(CONFIGMAPS, to=itself, labels=f"shard={shard}"),)),)
    return ControllerSpec(name=f"stamping-{shard}", build=build, queues=queues)


def test_each_instance_of_a_sharded_operator_patches_the_objects_of_its_shard(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[sharded("a")])
    cluster.manager(controllers=[sharded("b")])

    def stamps() -> dict[str, str]:
        found = {
            config_map["metadata"]["name"]: config_map["data"]
            for config_map in cluster.list(CONFIGMAPS)
            if "data" in config_map
        }
        return {name: data["stamp"] for name, data in found.items() if "stamp" in data}

    for name, shard in (("one", "a"), ("two", "b"), ("three", "c")):
        meta = {"name": name, "labels": {"shard": shard}}
        cluster.create(CONFIGMAPS, {"metadata": meta, "data": {"touch": ""}})
    assert cluster.run_until(lambda: stamps() == {"one": "a", "two": "b"}, within=30.0)
    cluster.merge(CONFIGMAPS, "default/one", {"metadata": {"labels": {"shard": "b"}}})
    assert cluster.run_until(lambda: stamps() == {"one": "b", "two": "b"}, within=30.0)
    assert {labels_of(config_map).get("shard") for config_map in cluster.list(CONFIGMAPS) if "data" in config_map} >= {
        "b",
        "c",
    }


# Fields that the server ignores.


class Misspelling:
    """Reconciler that writes a field which the API does not have, every ten seconds."""

    def __init__(self, tables: Tables) -> None:
        self._configmaps = tables[CONFIGMAPS]
        self.syncs = 0

    def reconcile(self, key: Key) -> Reconciliation:
        self.syncs += 1
        namespace, _, name = key.partition("/")
        if name == "web":
            wanted = {"metadata": {"name": name, "namespace": namespace}, "dataa": {"a": "2"}}
            yield from ensure(self._configmaps, wanted)
        return RequeueAfter(10.0)


def test_patch_that_the_server_ignores_is_sent_and_logged_once(cluster: SimulatedCluster, logs: LogCapture) -> None:
    built: list[Misspelling] = []

    def build(context: ControllerContext) -> Misspelling:
        built.append(Misspelling(context.tables))
        return built[-1]

    def patches() -> int:
        return sum(request.method == "PATCH" for _, _, request in cluster.network.requests)

    queues = (Queue(watches=(Watch(CONFIGMAPS, to=itself),)),)
    cluster.manager(controllers=[ControllerSpec(name="misspelling", build=build, queues=queues, resync=3000.0)])
    cluster.create(CONFIGMAPS, {"metadata": {"name": "web"}, "data": {"a": "1"}})
    cluster.run_for(1000.0)
    assert built[0].syncs >= 100
    assert patches() == 1
    logged = [entry for entry in logs.entries if entry["event"].startswith("patch changed nothing")]
    assert [(entry["resource"], entry["key"], entry["fields"]) for entry in logged] == [
        ("configmaps", "default/web", ["dataa.a"])
    ]
    remarks = [entry for entry in logs.entries if entry["event"] == "API server warning"]
    assert [(entry["client"], entry["request"], entry["warning"]) for entry in remarks] == [
        ("misspelling", "patch configmaps default/web", 'unknown field "dataa"')
    ]
    cluster.merge(CONFIGMAPS, "default/web", {"data": {"a": "9"}})
    cluster.run_for(1000.0)
    assert patches() == 2, "once for each version of the object"
    cluster.run_for(1500.0)
    assert patches() == 3, "and once after a resync"
