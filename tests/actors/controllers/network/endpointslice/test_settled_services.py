"""Large Services: the slices and writes are the same as if a sync compared everything."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kcm.actors.controllers.network.endpointslice import settled_services
from kcm.actors.controllers.network.endpointslice.metrics import DESIRED, SLICES
from kcm.protocols.objects import Object, decode_object, key_of, name_of, split_key
from kcm.protocols.resources import ENDPOINT_SLICES, PODS, SERVICES
from kcm.runtime.tables import table
from tests.actors.controllers.network.behind import pod, service
from tests.actors.controllers.network.endpointslice.test_reconciler import Scene

STEPS, PODS_AT_START, PER_SLICE = 60, 14, 4


def scene(pods: int = PODS_AT_START) -> Scene:
    made = [pod(f"p{number}", ips=(f"10.0.0.{number}",)) for number in range(1, pods + 1)]
    return Scene(*made, service=service(), max_endpoints=PER_SLICE)


def act(chance: random.Random, scenes: tuple[Scene, ...], number: int) -> None:
    """Make the same random change of pods, a slice or the Service in all scenes."""
    names = sorted(split_key(entry.key)[1] for entry in scenes[0].bench.tables[PODS].entries())
    action = chance.choice(("ready", "ready", "add", "add", "remove", "remove", "relabel", "foreign", "service"))
    name, ready, row = chance.choice(names), chance.random() < 0.5, chance.randrange(100)
    for each in scenes:
        address = f"10.0.0.{name[1:]}"
        if action == "ready":
            each.bench.show(PODS, pod(name, ips=(address,), ready=ready))
        elif action == "add":
            each.bench.show(PODS, pod(f"p{100 + number}", ips=(f"10.0.0.{100 + number}",)))
        elif action == "remove" and len(names) > 1:
            each.bench.hide(PODS, f"default/{name}")
        elif action == "relabel":
            each.bench.show(PODS, pod(name, ips=(address,), labels={"app": "other"}))
        elif action == "foreign" and (slices := sorted(each.slices(), key=name_of)):
            slice_ = decode_object(each.bench.tables[ENDPOINT_SLICES].entry(key_of(slices[row % len(slices)])).raw)
            del slice_["metadata"]["resourceVersion"]  # the bench sets a new one
            each.bench.show(ENDPOINT_SLICES, {**slice_, "endpoints": slice_["endpoints"][1:]})
        elif action == "service" and row < 20:
            each.bench.show(SERVICES, service(publishNotReadyAddresses=ready))


def shown(each: Scene) -> Iterator[tuple[Any, ...]]:
    for slice_ in sorted(each.slices(), key=name_of):
        yield name_of(slice_), slice_["endpoints"], slice_["metadata"].get("annotations")
    yield each.metrics.gauge(DESIRED).value, each.metrics.gauge(SLICES).value


@pytest.mark.parametrize("seed", range(8))
def test_large_services_get_the_same_slices_by_the_same_writes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, parts, whole = random.Random(seed), scene(), scene()
    for number in range(STEPS):
        writes, is_late = [], chance.random() < 0.3
        for each, large in ((parts, 1), (whole, 1000)):
            monkeypatch.setattr(settled_services, "LARGE", large)
            writes.append(each.sync().commands)
            if not is_late:
                each.bench.catch_up()
        assert writes[0] == writes[1]
        assert list(shown(parts)) == list(shown(whole))
        for _ in range(chance.choice((1, 1, 3))):
            act(chance, (parts, whole), number * 3)


def test_sync_of_a_large_service_decodes_only_slices_of_changed_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_services, "LARGE", 1)
    large = scene()
    large.sync()
    large.bench.catch_up()
    known = {entry.key for entry in large.bench.tables[ENDPOINT_SLICES].entries()}
    large.bench.show(PODS, pod("p1", ready=False))
    decoded: list[Object] = []

    def decode(raw: bytes) -> Object:
        decoded.append(decode_object(raw))
        return decoded[-1]

    monkeypatch.setattr(table, "decode_object", decode)
    [update] = large.sync().commands
    slices = {name_of(obj) for obj in decoded if "addressType" in obj}
    assert (len(known), slices) == (4, {split_key(update.key)[1]})
