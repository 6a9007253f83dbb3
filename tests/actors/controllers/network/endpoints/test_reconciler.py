"""Tests of the Endpoints reconciler without actors, with upstream's cases."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.network.endpoints.reconciler import QUEUE, EndpointsReconciler
from kcm.actors.controllers.network.endpoints.spec import SPEC
from kcm.actors.reconciliation import Enqueue
from kcm.actors.simulation.driver import Bench, Driven, drive, drive_steps
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Update
from kcm.protocols.messages.outcomes import Forbidden, ServerFailure
from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.protocols.resources import ENDPOINTS, PODS, SERVICES
from kcm.runtime.logs.standard_log import quiet_log
from tests.actors.controllers.network.behind import pod, service

KEY = "default/web"
LABEL = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"
CAPACITY = "endpoints.kubernetes.io/over-capacity"


class Scene:
    def __init__(self, *pods: Object, services: tuple[Object, ...], endpoints: tuple[Object, ...] = ()) -> None:
        self.bench = Bench(
            {SERVICES: services, PODS: pods, ENDPOINTS: endpoints}, indexes=SPEC.indexes, facts=SPEC.facts
        )
        self.reconciler = EndpointsReconciler(tables=self.bench.tables, log=quiet_log())

    def sync(self, answer: Any = None, *, raises: type[Exception] | None = None) -> Driven:
        return drive(self.reconciler, KEY, answer or self.bench.accept, tables=self.bench.tables, raises=raises)

    def subsets(self) -> list[Object]:
        [command] = self.sync().commands
        return subsets(command)


def subsets(command: Command) -> list[Object]:
    assert isinstance(command, Create | Update)
    found: list[Object] = decode_object(command.body)["subsets"]
    return found


def meta_of(command: Command) -> Object:
    assert isinstance(command, Create | Update)
    meta: Object = decode_object(command.body)["metadata"]
    return meta


def counts(made: Object, **spec: Any) -> tuple[int, int]:
    found = Scene(made, services=(service(**spec),)).subsets()
    return tuple(sum(len(subset.get(field) or ()) for subset in found) for field in ("addresses", "notReadyAddresses"))  # type: ignore[return-value]


def test_pods_are_written_once_although_the_watch_is_late() -> None:
    ready, other = pod("a"), pod("b", ips=("10.0.0.2",), ready=False)
    scene = Scene(ready, other, services=(service(),))
    [create] = scene.sync().of(Create)
    target = {"kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-of-a"}
    [only] = subsets(create)
    assert only["addresses"] == [{"ip": "10.0.0.1", "nodeName": "n1", "targetRef": target}]
    assert [address["ip"] for address in only["notReadyAddresses"]] == ["10.0.0.2"]
    assert only["ports"] == [{"port": 8080, "protocol": "TCP"}]
    meta = meta_of(create)
    assert (meta["name"], meta["labels"]) == ("web", LABEL)
    assert meta["annotations"] == {TRIGGER: "2026-01-01T00:00:00Z"}
    assert scene.sync().commands == []


def test_service_without_pods_has_empty_endpoints() -> None:
    assert Scene(services=(service(),)).subsets() == []


@pytest.mark.parametrize("phase", ["Running", "Unknown", "Pending"])
def test_pod_that_has_not_terminated_is_an_endpoint(phase: str) -> None:
    assert counts(pod("a", phase=phase)) == (1, 0)
    assert counts(pod("a", phase=phase, ready=False)) == (0, 1)
    assert counts(pod("a", phase=phase, deleting=True)) == (0, 0)
    for ready in (True, False):
        for deleting in (True, False):
            made = pod("a", phase=phase, ready=ready, deleting=deleting)
            assert counts(made, publishNotReadyAddresses=True) == (1, 0)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_terminated_pod_is_not_an_endpoint(phase: str) -> None:
    assert counts(pod("a", phase=phase)) == counts(pod("a", phase=phase), publishNotReadyAddresses=True) == (0, 0)


@pytest.mark.parametrize(
    ("ips", "spec", "expected"),
    [
        (("10.0.0.1", "fd00::1"), {"ipFamilies": ["IPv4"]}, "10.0.0.1"),
        (("fd00::1", "10.0.0.1"), {"ipFamilies": ["IPv4", "IPv6"]}, "10.0.0.1"),
        (("10.0.0.1", "FD00::0001"), {"ipFamilies": ["IPv6"]}, "fd00::1"),
        (("10.0.0.1",), {"ipFamilies": ["IPv6"]}, None),
        (("10.0.0.1", "fd00::1"), {"ipFamilies": None, "clusterIP": "fd00::9"}, "fd00::1"),
        (("fd00::1",), {"ipFamilies": None, "clusterIP": "10.0.0.9"}, None),
        (("fd00::1", "10.0.0.1"), {"ipFamilies": None, "clusterIP": "None"}, "fd00::1"),
    ],
)
def test_address_is_of_the_first_ip_family_of_the_service(
    ips: tuple[str, ...], spec: Object, expected: str | None
) -> None:
    found = Scene(pod("a", ips=ips), services=(service(**spec),)).subsets()
    assert [subset["addresses"][0]["ip"] for subset in found] == ([expected] if expected else [])


def test_headless_service_is_labelled_and_needs_no_ports() -> None:
    inside = pod("a", hostname="a", subdomain="web")
    [create] = Scene(inside, services=(service(ports=[], clusterIP="None"),)).sync().commands
    assert meta_of(create)["labels"] == {**LABEL, "service.kubernetes.io/headless": ""}
    [only] = subsets(create)
    assert "ports" not in only
    assert only["addresses"][0]["hostname"] == "a"
    assert Scene(pod("a"), services=(service(ports=[]),)).subsets() == []


def test_named_port_is_omitted_for_pods_without_it() -> None:
    def having(name: str, ip: str, **ports: int) -> Object:
        named = [{"name": each, "containerPort": number, "protocol": "TCP"} for each, number in ports.items()]
        return pod(name, ips=(ip,), containers=[{"name": "c", "ports": named}])

    first_port = {"name": "one", "port": 80, "protocol": "TCP", "targetPort": "first"}
    two = {"name": "two", "port": 81, "protocol": "TCP", "targetPort": "second"}
    pods = having("a", "10.0.0.1", first=100), having("b", "10.0.0.2", second=101)
    scene = Scene(*pods, services=(service(ports=[first_port, two]),))
    found = [(each["addresses"][0]["ip"], each["ports"][0]["port"]) for each in scene.subsets()]
    assert found == [("10.0.0.1", 100), ("10.0.0.2", 101)]
    scene.bench.show(SERVICES, service(ports=[two]))
    assert [each["addresses"][0]["ip"] for each in scene.subsets()] == ["10.0.0.2"]


def test_labels_are_copied_and_other_annotations_kept() -> None:
    scene = Scene(pod("a"), services=(service(),))
    scene.sync()
    present = scene.bench.tables[ENDPOINTS].get(KEY)
    assert present is not None
    mine = {**present, "metadata": {**present["metadata"], "annotations": {"mine": "x", CAPACITY: "warning"}}}
    scene.bench.show(ENDPOINTS, {**mine, "metadata": {**mine["metadata"], "resourceVersion": "5000"}})
    labelled = service()
    labelled["metadata"]["labels"] = {"tier": "front"}
    scene.bench.show(SERVICES, labelled)
    [update] = scene.sync().of(Update)
    assert meta_of(update)["labels"] == {"tier": "front", **LABEL}
    assert meta_of(update)["annotations"] == {"mine": "x"}


def test_exceeded_capacity_is_annotated_once() -> None:
    pods = [pod(f"p{number}", ips=(f"10.1.{number // 250}.{number % 250 + 1}",)) for number in range(1001)]
    scene = Scene(*pods, services=(service(),))
    [create] = scene.sync().commands
    assert sum(len(subset["addresses"]) for subset in subsets(create)) == 1000
    assert meta_of(create)["annotations"][CAPACITY] == "truncated"
    assert scene.sync().commands == []
    scene.bench.hide(PODS, "default/p0")
    [update] = scene.sync().commands
    assert CAPACITY not in meta_of(update)["annotations"]


def test_equal_subsets_in_another_order_are_not_written() -> None:
    first, second = ({"ip": f"10.0.0.{number}", "nodeName": "n1"} for number in (1, 2))
    for name, address in (("a", first), ("b", second)):
        address["targetRef"] = {"kind": "Pod", "namespace": "default", "name": name, "uid": f"uid-of-{name}"}
        address["targetRef"]["resourceVersion"] = "7"
    there = {
        "metadata": {"name": "web", "namespace": "default", "labels": LABEL},
        "subsets": [{"addresses": [second, first], "ports": [{"name": "", "port": 8080, "protocol": "TCP"}]}],
    }
    scene = Scene(pod("a"), pod("b", ips=("10.0.0.2",)), services=(service(),), endpoints=(there,))
    assert scene.sync().commands == []


@pytest.mark.parametrize("spec", [{"selector": None}, {"type": "ExternalName"}])
def test_endpoints_of_service_without_selector_are_ignored(spec: Object) -> None:
    there = {"metadata": {"name": "web", "namespace": "default"}, "subsets": []}
    assert Scene(pod("a"), services=(service(**spec),), endpoints=(there,)).sync().commands == []


def test_endpoints_are_deleted_with_their_service() -> None:
    there = {"metadata": {"name": "web", "namespace": "default"}, "subsets": []}
    scene = Scene(services=(), endpoints=(there,))
    [gone] = scene.sync().of(Delete)
    assert gone.uid == "uid-of-web"
    assert scene.sync().commands == []


def test_leftover_endpoints_are_checked_once_except_for_leader_election() -> None:
    def endpoints(name: str, **annotations: str) -> Object:
        return {"metadata": {"name": name, "namespace": "default", "annotations": annotations}}

    held = endpoints("lock", **{"control-plane.alpha.kubernetes.io/leader": "{}"})
    scene = Scene(services=(service(),), endpoints=(endpoints("web"), endpoints("old"), held))
    driven = drive_steps(scene.reconciler.sweep(), scene.bench.accept, tables=scene.bench.tables)
    assert driven.enqueued == [Enqueue(QUEUE, "default/old")]


def test_rejections_are_recorded_unless_the_namespace_is_terminating() -> None:
    driven = Scene(pod("a"), services=(service(),)).sync(lambda _: ServerFailure("down"), raises=CommandError)
    [event] = driven.records
    assert (event.kind, event.reason, event.message) == (
        "Endpoints",
        "FailedToCreateEndpoint",
        "Failed to create endpoint for service default/web: down",
    )
    status = encode_object({"details": {"causes": [{"reason": "NamespaceTerminating"}]}})
    going = Scene(pod("a"), services=(service(),)).sync(lambda _: Forbidden("no", status))
    assert (going.error, going.records) == (None, [])
