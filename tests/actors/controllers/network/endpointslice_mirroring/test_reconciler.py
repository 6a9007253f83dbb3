"""Tests of the EndpointSlice mirroring reconciler without actors, with upstream's cases."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.network.endpointslice_mirroring.metrics import (
    CHANGES,
    DESIRED,
    SKIPPED,
    SLICES,
    MirrorMetrics,
)
from kcm.actors.controllers.network.endpointslice_mirroring.mirrors import MANAGER
from kcm.actors.controllers.network.endpointslice_mirroring.reconciler import (
    MirroringReconciler,
    endpoints_without_selector,
    services_without_selector,
)
from kcm.actors.controllers.network.endpointslice_mirroring.spec import SPEC
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Bench, Driven, drive
from kcm.protocols.messages.commands import Command, Create, Delete, Update
from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.protocols.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.metrics.registry import Metrics
from tests.actors.controllers.network.behind import service

KEY = "default/web"
WEB = service(selector=None)


def endpoints(*subsets: Object, **meta: Any) -> Object:
    return {"metadata": {"name": "web", "namespace": "default", **meta}, "subsets": list(subsets)}


def subset(*ips: str, ports: tuple[int, ...] = (80,), down: tuple[str, ...] = ()) -> Object:
    return {
        "addresses": [{"ip": ip} for ip in ips],
        "notReadyAddresses": [{"ip": ip} for ip in down],
        "ports": [{"name": f"p{port}", "port": port, "protocol": "TCP"} for port in ports],
    }


def many(count: int) -> Object:
    return subset(*(f"10.0.{number // 250}.{number % 250}" for number in range(count)))


class Scene:
    def __init__(
        self,
        written: Object | None,
        *,
        service: Object | None = WEB,
        slices: tuple[Object, ...] = (),
        max_endpoints: int = 1000,
    ) -> None:
        objects = {
            SERVICES: [] if service is None else [service],
            ENDPOINTS: [] if written is None else [written],
            ENDPOINT_SLICES: slices,
        }
        self.bench = Bench(objects, indexes=SPEC.indexes, facts=SPEC.facts)
        self.metrics = Metrics()
        self.reconciler = MirroringReconciler(
            tables=self.bench.tables,
            clock=self.bench.clock,  # type: ignore[arg-type]
            metrics=MirrorMetrics(self.metrics),
            log=quiet_log(),
            max_endpoints=max_endpoints,
        )

    def sync(self) -> Driven:
        return drive(self.reconciler, KEY, self.bench.accept, tables=self.bench.tables)


def content(command: Command) -> tuple[str, list[int], list[tuple[str, bool]]]:
    assert isinstance(command, Create | Update)
    slice_ = decode_object(command.body)
    ready = [(endpoint["addresses"][0], endpoint["conditions"]["ready"]) for endpoint in slice_["endpoints"]]
    return slice_["addressType"], [port["port"] for port in slice_["ports"]], ready


@pytest.mark.parametrize(
    ("subsets", "expected"),
    [
        ([], []),
        ([subset()], []),
        ([subset("10.0.0.1")], [("IPv4", [80], [("10.0.0.1", True)])]),
        (
            [subset("10.0.0.1", down=("10.0.0.2",))],
            [("IPv4", [80], [("10.0.0.1", True), ("10.0.0.2", False)])],
        ),
        (
            [subset("10.0.0.1"), subset("10.0.0.2", ports=(81,))],
            [("IPv4", [80], [("10.0.0.1", True)]), ("IPv4", [81], [("10.0.0.2", True)])],
        ),
        ([subset("10.0.0.1"), subset("10.0.0.1", ports=(81,))], [("IPv4", [80, 81], [("10.0.0.1", True)])]),
        ([subset("10.0.0.1"), subset("10.0.0.2")], [("IPv4", [80], [("10.0.0.1", True), ("10.0.0.2", True)])]),
        (
            [subset("10.0.0.1", "FD00::0001")],
            [("IPv4", [80], [("10.0.0.1", True)]), ("IPv6", [80], [("fd00::1", True)])],
        ),
    ],
)
def test_each_port_set_and_ip_family_has_a_slice(subsets: list[Object], expected: list[Any]) -> None:
    scene = Scene(endpoints(*subsets))
    assert [content(command) for command in scene.sync().commands] == expected
    assert scene.sync().commands == []
    assert scene.metrics.counter(CHANGES, "create").value == len(expected)
    assert scene.metrics.gauge(SLICES).value == len(expected)


def test_labels_and_annotations_are_copied_with_two_exceptions() -> None:
    annotations = {
        "mine": "x",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
    }
    scene = Scene(endpoints(subset("10.0.0.1"), labels={"tier": "back"}, annotations=annotations))
    [create] = scene.sync().of(Create)
    meta = decode_object(create.body)["metadata"]
    own = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": MANAGER}
    assert (meta["labels"], meta["annotations"]) == ({"tier": "back", **own}, {"mine": "x"})
    assert meta["ownerReferences"][0]["kind"] == "Endpoints"
    assert scene.sync().commands == []


@pytest.mark.parametrize(
    "changed",
    [
        endpoints(subset("10.0.0.1"), labels={"tier": "front"}),
        endpoints(subset("10.0.0.1"), annotations={"mine": "y"}),
        endpoints(subset("10.0.0.2")),
        endpoints(subset(down=("10.0.0.1",))),
        endpoints(subset("10.0.0.1", ports=(81,))),
        endpoints(subset("10.0.0.1"), uid="made anew"),
    ],
)
def test_change_causes_one_update(changed: Object) -> None:
    scene = Scene(endpoints(subset("10.0.0.1")))
    scene.sync()
    scene.bench.show(ENDPOINTS, changed)
    [update] = scene.sync().commands
    assert isinstance(update, Update)
    assert len(decode_object(update.body)["metadata"]["ownerReferences"]) == 1
    assert scene.sync().commands == []


@pytest.mark.parametrize(
    ("written", "service_now"),
    [
        (None, WEB),
        (endpoints(subset("10.0.0.1")), None),
        (endpoints(subset("10.0.0.1")), service()),
        (endpoints(subset("10.0.0.1")), service(selector={})),
        (endpoints(), WEB),
        (endpoints(subset("10.0.0.1"), labels={"endpointslice.kubernetes.io/skip-mirror": "true"}), WEB),
        (endpoints(subset("10.0.0.1"), annotations={"control-plane.alpha.kubernetes.io/leader": "{}"}), WEB),
    ],
)
def test_slices_are_deleted_when_there_is_nothing_to_mirror(written: Object | None, service_now: Object | None) -> None:
    first = Scene(endpoints(subset("10.0.0.1")))
    first.sync()
    [mirror] = first.bench.tables[ENDPOINT_SLICES].objects()
    labels = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "somebody"}
    foreign = {**mirror, "metadata": {**mirror["metadata"], "name": "foreign", "labels": labels}}
    scene = Scene(written, service=service_now, slices=(decode_object(encode_object(mirror)), foreign))
    [gone] = scene.sync().commands
    assert isinstance(gone, Delete)
    assert gone.key == "default/" + mirror["metadata"]["name"]
    assert scene.sync().commands == []


def test_other_values_of_the_skip_label_are_ignored() -> None:
    kept = endpoints(subset("10.0.0.1"), labels={"endpointslice.kubernetes.io/skip-mirror": "false"})
    assert len(Scene(kept).sync().of(Create)) == 1


def test_terminating_endpoints_are_not_mirrored() -> None:
    going = endpoints(subset("10.0.0.1"), deletionTimestamp="2026-01-01T00:00:00Z")
    assert Scene(going).sync().commands == []


@pytest.mark.parametrize(
    ("given", "max_endpoints", "mirrored", "skipped", "reasons"),
    [
        (subset("10.0.0.1", "x", "y"), 1000, 1, 2, ["InvalidIPAddress"]),
        (subset("v", "w", "x", "y", "z"), 1000, 0, 5, ["InvalidIPAddress"]),
        (subset("10.0.0.1", "10.0.0.2", "10.0.0.3"), 2, 2, 1, ["TooManyAddressesToMirror"]),
        (many(1001), 1000, 1000, 1, ["TooManyAddressesToMirror"]),
    ],
)
def test_skipped_addresses_are_recorded_in_events(
    given: Object, max_endpoints: int, mirrored: int, skipped: int, reasons: list[str]
) -> None:
    scene = Scene(endpoints(given), max_endpoints=max_endpoints)
    driven = scene.sync()
    assert [event.reason for event in driven.records] == reasons
    assert scene.metrics.gauge(DESIRED).value == mirrored
    assert scene.metrics.histogram(SKIPPED).sum == skipped


def test_event_texts_are_upstreams() -> None:
    [event] = Scene(endpoints(subset("x"))).sync().records
    assert event.message == "Skipped 1 invalid IP addresses when mirroring to EndpointSlices"
    [event] = Scene(endpoints(subset("10.0.0.1", "10.0.0.2")), max_endpoints=1).sync().records
    assert event.message == (
        "A max of 1 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped"
    )


def test_endpoints_of_services_with_selectors_enqueue_no_key() -> None:
    def change(obj: Object, old: Object | None = None) -> Change:
        return Change(
            type="MODIFIED",
            key=KEY,
            raw=encode_object(obj),
            previous=b"" if old is None else encode_object(old),
            controller=None,
        )

    written = endpoints(subset("10.0.0.1"))
    assert list(endpoints_without_selector(change(written), Scene(written).bench.tables)) == [KEY]
    assert list(endpoints_without_selector(change(written), Scene(written, service=None).bench.tables)) == [KEY]
    tables = Scene(written, service=service()).bench.tables
    assert list(endpoints_without_selector(change(written), tables)) == []
    assert list(services_without_selector(change(service()), tables)) == []
    assert list(services_without_selector(change(service(), WEB), tables)) == [KEY]


def test_slice_reused_for_other_ports_keeps_its_generate_name() -> None:
    scene = Scene(endpoints(subset("10.0.0.1")))
    [made] = scene.sync().of(Create)
    assert decode_object(made.body)["metadata"]["generateName"] == "web-"
    scene.bench.show(ENDPOINTS, endpoints(subset("10.0.0.2", ports=(81,))))
    [update] = scene.sync().commands
    assert isinstance(update, Update)
    assert decode_object(update.body)["metadata"]["generateName"] == "web-"
