"""Devices of hollow nodes: the annotation, and the slices that are published."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from kcm.actors.hollow.behaviour import SILENT
from kcm.actors.hollow.device_pools import DEVICES, PUBLISHER, device_pools, slices_of
from kcm.actors.hollow.devices import HollowDevices, devices_spec
from kcm.actors.reconciliation import Change, RequeueAfter
from kcm.actors.simulation.driver import Bench, Driven, bodies, deleted_keys, drive
from kcm.protocols.messages.commands import Command, Create, Delete, Patch
from kcm.protocols.messages.outcomes import Invalid, Outcome
from kcm.protocols.objects import Object, encode_object, name_of
from kcm.protocols.resources import NODES, RESOURCE_SLICES
from tests.actors.hollow.objects import FLEET, hollow_node

NODE = "hollow-node-0"


def node(devices: Any = None, **annotations: str) -> Object:
    if devices is not None:
        annotations[DEVICES] = devices if isinstance(devices, str) else json.dumps(devices)
    return hollow_node(annotations=annotations)


def made(devices: Any) -> list[Object]:
    of = node(devices)
    return [each for pool in device_pools(of) for each in slices_of(pool, of, generation=1)]


def test_short_annotation_names_drivers_and_numbers() -> None:
    gpus, nics = made("gpu.example.com=2, nic.example.com=1")
    assert gpus == {
        "metadata": {
            "name": "hollow-node-0-gpu.example.com-0",
            "labels": {PUBLISHER: NODE},
            "annotations": gpus["metadata"]["annotations"],
            "ownerReferences": gpus["metadata"]["ownerReferences"],
        },
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1},
            "nodeName": NODE,
            "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
        },
    }
    assert [device["name"] for device in nics["spec"]["devices"]] == ["nic-0"]


def test_fields_of_a_pool_are_those_of_its_devices() -> None:
    taints = [{"key": "k", "effect": "NoSchedule"}]
    (made_,) = made(
        {
            "driver": "gpu.example.com",
            "count": 2,
            "name": "card",
            "attributes": {"model": "A100", "index": 3, "big": True, "firmware": {"version": "1.2.3"}},
            "capacity": {"memory": "80Gi", "cores": {"value": "5"}},
            "taints": taints,
        }
    )
    assert made_["spec"]["devices"] == [
        {
            "name": name,
            "attributes": {
                "model": {"string": "A100"},
                "index": {"int": 3},
                "big": {"bool": True},
                "firmware": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "5"}},
            "taints": taints,
        }
        for name in ("card-0", "card-1")
    ]


def test_whole_devices_are_published_as_they_are() -> None:
    (made_,) = made([{"driver": "d.example.com", "devices": [{"name": "x", "attributes": {"a": {"int": 1}}}]}])
    assert made_["spec"]["devices"] == [{"name": "x", "attributes": {"a": {"int": 1}}}]


@pytest.mark.parametrize("scope", [{"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": []}}])
def test_devices_of_several_nodes_are_not_owned_by_the_node(scope: Object) -> None:
    (made_,) = made({"driver": "nic.example.com", "pool": "rack", **scope})
    assert {name: made_["spec"][name] for name in scope} == scope
    assert "nodeName" not in made_["spec"]
    assert "ownerReferences" not in made_["metadata"]
    assert name_of(made_) == "rack-nic.example.com-0"


def test_large_pools_have_several_slices() -> None:
    assert [len(each["spec"]["devices"]) for each in made("d.example.com=300")] == [128, 128, 44]
    assert {each["spec"]["pool"]["resourceSliceCount"] for each in made("d.example.com=300")} == {3}
    tainted = made({"driver": "d.example.com", "count": 100, "taints": [{"key": "k", "effect": "None"}]})
    assert [len(each["spec"]["devices"]) for each in tainted] == [64, 36]


def test_shared_counters_have_a_slice_of_their_own() -> None:
    counters = [{"name": "memory", "counters": {"memory": {"value": "40Gi"}}}]
    first, second = made({"driver": "d.example.com", "sharedCounters": counters})
    assert first["spec"]["sharedCounters"] == counters
    assert "devices" not in first["spec"]
    assert [device["name"] for device in second["spec"]["devices"]] == ["d-0"]


def nested(levels: int) -> Object:
    return {} if levels == 0 else {"a": nested(levels - 1)}


INVALID: Mapping[str, tuple[str, str]] = {
    "no number": ("gpu.example.com", "'gpu.example.com' is not DRIVER=COUNT"),
    "no JSON": ("[", "Expecting value"),
    "no driver": ('{"count": 1}', "a pool without a driver"),
    "negative number": ('{"driver": "d", "count": -1}', "count of d is not a number from 0 to 10000"),
    "too many": ("d=10001", "count of d is not a number from 0 to 10000"),
    "devices of another type": ('{"driver": "d", "devices": "x"}', "devices of d is not a list of devices"),
    "a pool twice": ("d=1,d=2", "two pools of a driver have the same name"),
    "deep nesting": ("[" * 100_000, "too many levels"),
    "deep attributes": (json.dumps({"driver": "d", "attributes": nested(40)}), "too many levels"),
    "too many in all": ("a=10000,b=1", "10001 devices are more than 10000"),
    "too many whole devices": (json.dumps({"driver": "d", "devices": [{}] * 100_000}), "100000 devices are more than"),
    "too many pools": (",".join(f"d{number}=0" for number in range(101)), "101 pools are more than 100"),
    "too large": (json.dumps({"driver": "d", "count": 10_000, "attributes": {"a": "x" * 2_000}}), "more than 16777216"),
    "1 MB of text": ("x" * 1_000_000, f"'{'x' * 80}…' is not DRIVER=COUNT"),
    "1 MB of digits": ("d=" + "9" * 1_000_000, "count of d is not a number from 0 to 10000"),
    "long driver": (json.dumps({"driver": "d" * 100_000, "count": -1}), f"count of {'d' * 80}… is not a number"),
    "number of another script": ("d=٣", "'d=٣' is not DRIVER=COUNT"),
    "number of 65 bits": (json.dumps({"driver": "d", "attributes": {"a": 2**64}}), "Integer exceeds 64-bit range"),
    "lone surrogate": ('{"driver": "d\\ud800"}', "surrogates not allowed"),
    "pool of another type": ('{"driver": "d", "pool": {"a": 1}}', "pool of d is not a string"),
    "name of another type": ('{"driver": "d", "name": 1}', "name of d is not a string"),
    "counters of another type": (
        '{"driver": "d", "sharedCounters": 5}',
        "sharedCounters of d is not a list of counter sets",
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_annotation_is_refused(case: str) -> None:
    text, message = INVALID[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        device_pools(node(text))


def test_most_devices_of_a_node_are_published() -> None:
    assert sum(len(part["spec"]["devices"]) for part in made("a=9999,b=1")) == 10_000


class World:
    def __init__(self, *nodes: Object, slices: Any = ()) -> None:
        (index,) = devices_spec(FLEET).indexes
        self.bench = Bench({NODES: nodes, RESOURCE_SLICES: slices}, indexes=(index,))
        self.driver = HollowDevices(tables=self.bench.tables, clock=self.bench.clock, fleet=FLEET)

    def drive(self) -> Driven:
        return drive(self.driver, NODE, self.bench.accept, tables=self.bench.tables)

    def annotate(self, devices: str) -> Driven:
        self.bench.catch_up()
        self.bench.show(NODES, node(devices))
        return self.drive()


def test_slices_are_published_once_by_the_node() -> None:
    world = World(node("gpu.example.com=1"))
    (command,) = world.drive().commands
    assert isinstance(command, Create)
    assert command.user == "system:node:hollow-node-0"
    assert world.drive().commands == []


def test_changed_pool_has_a_new_generation() -> None:
    world = World(node("gpu.example.com=1"))
    world.drive()
    (updated,) = bodies(world.annotate("gpu.example.com=2"), Patch)
    assert updated["spec"]["pool"]["generation"] == 2
    assert len(updated["spec"]["devices"]) == 2


def test_all_slices_of_a_changed_pool_are_written() -> None:
    world = World(node("gpu.example.com=100"))
    world.drive()
    driven = world.annotate("gpu.example.com=200")
    generations = [body["spec"]["pool"]["generation"] for kind in (Patch, Create) for body in bodies(driven, kind)]
    assert generations == [2, 2]


def test_slices_are_deleted_with_the_annotation() -> None:
    world = World(node("gpu.example.com=1"))
    world.drive()
    assert deleted_keys(world.annotate("")) == ["hollow-node-0-gpu.example.com-0"]


def test_slices_are_deleted_with_the_node() -> None:
    world = World(node({"driver": "nic.example.com", "pool": "rack", "allNodes": True}))
    world.drive()
    world.bench.catch_up()
    world.bench.hide(NODES, NODE)
    driven = world.drive()
    assert deleted_keys(driven) == ["rack-nic.example.com-0"]
    (command,) = driven.commands
    assert isinstance(command, Delete)
    assert command.user == ""


def test_edited_slice_is_kept() -> None:
    world = World(node("gpu.example.com=1"))
    world.drive()
    world.bench.catch_up()
    (made_,) = world.bench.tables[RESOURCE_SLICES].objects()
    taints = [{"key": "broken", "effect": "NoSchedule"}]
    devices = [{**device, "taints": taints} for device in made_["spec"]["devices"]]
    world.bench.show(RESOURCE_SLICES, {**made_, "spec": {**made_["spec"], "devices": devices}})
    assert world.drive().commands == []


def test_deleted_slice_is_published_again() -> None:
    world = World(node("gpu.example.com=1"))
    world.drive()
    world.bench.catch_up()
    world.bench.hide(RESOURCE_SLICES, "hollow-node-0-gpu.example.com-0")
    assert len(bodies(world.drive(), Create)) == 1


def test_silent_node_publishes_no_devices() -> None:
    assert World(node("gpu.example.com=1", **{SILENT: "true"})).drive().commands == []


def test_invalid_annotation_is_reported_once_and_changes_no_slices() -> None:
    world = World(node("gpu.example.com=1"))
    world.drive()
    driven = world.annotate("gpu.example.com")
    assert driven.events == [
        ("Warning", "InvalidDevices", "annotation hollow.kcm.dev/devices: 'gpu.example.com' is not DRIVER=COUNT")
    ]
    assert driven.commands == []
    assert world.drive().events == []


def test_slice_refused_by_the_server_is_reported_once_and_written_again_later() -> None:
    world = World(node("No_Driver=1"))

    def refuse(_command: Command) -> Outcome:
        return Invalid("spec.driver: Invalid value: " + "x" * 100_000)

    driven = drive(world.driver, NODE, refuse, tables=world.bench.tables)
    ((type_, reason, message),) = driven.events
    assert (type_, reason) == ("Warning", "InvalidDevices")
    assert message.startswith("annotation hollow.kcm.dev/devices: ResourceSlices of No_Driver: spec.driver: Invalid")
    assert len(message) < 1024
    assert driven.result == RequeueAfter(60)
    assert drive(world.driver, NODE, refuse, tables=world.bench.tables).events == []
    assert len(bodies(world.drive(), Create)) == 1


def test_invalid_annotation_does_not_affect_other_nodes() -> None:
    other = hollow_node("hollow-node-1", annotations={DEVICES: "gpu.example.com=1"})
    world = World(node("[" * 100_000), other)
    assert [event[1] for event in world.drive().events] == ["InvalidDevices"]
    driven = drive(world.driver, "hollow-node-1", world.bench.accept, tables=world.bench.tables)
    assert len(bodies(driven, Create)) == 1


def keys(new: Object, old: Object | None = None, *, resource: Any = NODES, type: str = "MODIFIED") -> list[str]:
    spec = devices_spec(FLEET)
    (watch,) = [watch for watch in spec.watches if watch.resource == resource]
    change = Change(
        type=type,
        key=name_of(new),
        raw=encode_object(new),
        controller=None,
        previous=b"" if old is None else encode_object(old),
    )
    return list(watch.to(change, World().bench.tables))


def test_nodes_are_enqueued_by_relevant_changes() -> None:
    assert keys(node("d=1"), type="ADDED") == [NODE]
    assert keys(node("d=1"), node("d=1")) == []
    assert keys(node("d=2"), node("d=1")) == [NODE]
    assert keys(node("d=1"), node("d=1", **{SILENT: "true"})) == [NODE]
    assert keys(node("d=1"), type="DELETED") == [NODE]
    assert keys({"metadata": {"name": "other"}}, type="ADDED") == []
    (published,) = made("d=1")
    assert keys(published, resource=RESOURCE_SLICES, type="DELETED") == [NODE]
    assert keys({"metadata": {"name": "foreign"}}, resource=RESOURCE_SLICES, type="DELETED") == []
