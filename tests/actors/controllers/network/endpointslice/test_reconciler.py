"""Tests of the EndpointSlice reconciler without actors: contents of slices, and numbers of writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kcm.actors.controllers.network.endpointslice.metrics import CHANGES, DESIRED, SLICES, SYNCS, SliceMetrics
from kcm.actors.controllers.network.endpointslice.reconciler import (
    QUEUE,
    EndpointSliceReconciler,
    MissingNodeError,
    address_types,
)
from kcm.actors.controllers.network.endpointslice.spec import SPEC
from kcm.actors.controllers.network.shared.slices import slice_change
from kcm.actors.reconciliation import Change, Enqueue
from kcm.actors.simulation import objects
from kcm.actors.simulation.driver import Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Done, Forbidden, Outcome, Unknown
from kcm.protocols.objects import Object, decode_object, encode_object, owner_reference
from kcm.protocols.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.metrics.registry import Metrics
from tests.actors.controllers.network.behind import pod, service

KEY = "default/web"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


class Scene:
    """Bench that runs the reconciler for one Service, with two nodes in two zones."""

    def __init__(
        self, *pods: Object, service: Object, slices: tuple[Object, ...] = (), nodes: int = 2, max_endpoints: int = 100
    ):
        fleet = [
            objects.node(f"n{number}", labels={"topology.kubernetes.io/zone": f"zone-{number}"}, ready="True")
            for number in range(1, nodes + 1)
        ]
        self.bench = Bench(
            {SERVICES: [service], PODS: pods, NODES: fleet, ENDPOINT_SLICES: slices},
            indexes=SPEC.indexes,
            facts=SPEC.facts,
        )
        self.metrics = Metrics()
        self.reconciler = EndpointSliceReconciler(
            tables=self.bench.tables,
            clock=self.bench.clock,
            metrics=SliceMetrics(self.metrics, max_endpoints=max_endpoints),
            log=quiet_log(),
            max_endpoints=max_endpoints,
        )

    def sync(self, answer: Any = None, *, raises: type[Exception] | None = None, after: float = 1.0) -> Driven:
        """Sync the Service. after: seconds to advance the clock before the sync."""
        self.bench.clock.advance(after)
        return drive(self.reconciler, KEY, answer or self.bench.accept, tables=self.bench.tables, raises=raises)

    def slices(self) -> list[Object]:
        return self.bench.tables[ENDPOINT_SLICES].objects()


def written(command: Command) -> Object:
    assert isinstance(command, Create | Update)
    return decode_object(command.body)


def conditions(endpoint: Mapping[str, Any]) -> tuple[bool, bool, bool]:
    found = endpoint["conditions"]
    return found["ready"], found["serving"], found["terminating"]


def test_pods_are_written_once_although_the_watch_is_late() -> None:
    scene = Scene(pod("a"), pod("b", ips=("10.0.0.2",), node="n2", ready=False), service=service())
    [create] = scene.sync().commands
    slice_ = written(create)
    first, second = slice_["endpoints"]
    assert first == {
        "addresses": ["10.0.0.1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "nodeName": "n1",
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "uid-of-a"},
        "zone": "zone-1",
    }
    assert (conditions(second), second["zone"]) == ((False, False, False), "zone-2")
    assert slice_["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
    assert slice_["metadata"]["ownerReferences"][0]["uid"] == "uid-of-web"
    assert slice_["metadata"]["generateName"] == "web-"
    assert slice_["metadata"]["annotations"] == {TRIGGER: "2026-01-01T00:00:00Z"}
    assert scene.sync().commands == []
    assert scene.metrics.counter(CHANGES, "create").value == 1
    assert scene.metrics.counter(SYNCS, "success").value == 2
    assert (scene.metrics.gauge(DESIRED).value, scene.metrics.gauge(SLICES).value) == (2, 1)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (pod("a", deleting=True), [(False, True, True)]),
        (pod("a", deleting=True, ready=False), [(False, False, True)]),
        (pod("a", phase="Failed"), []),
        (pod("a", phase="Succeeded"), []),
        (pod("a", phase="Pending"), [(True, True, False)]),
        (pod("a", ips=()), []),
        (pod("a", labels={"app": "other"}), []),
    ],
)
def test_conditions_of_endpoints_follow_the_pods(made: Object, expected: list[tuple[bool, bool, bool]]) -> None:
    [create] = Scene(made, service=service()).sync().commands
    assert [conditions(endpoint) for endpoint in written(create)["endpoints"]] == expected


def test_unready_pods_are_published_if_the_service_requests_it() -> None:
    scene = Scene(pod("a", ready=False, deleting=True), service=service(publishNotReadyAddresses=True))
    [create] = scene.sync().commands
    assert [conditions(endpoint) for endpoint in written(create)["endpoints"]] == [(True, False, True)]


def test_each_ip_family_has_its_own_slices() -> None:
    both = pod("a", ips=("10.0.0.1", "FD00::0001"))
    scene = Scene(both, pod("b", ips=("10.0.0.2",)), service=service(ipFamilies=["IPv4", "IPv6"]))
    four, six = (written(command) for command in scene.sync().commands)
    assert [endpoint["addresses"] for endpoint in four["endpoints"]] == [["10.0.0.1"], ["10.0.0.2"]]
    assert (six["addressType"], [endpoint["addresses"] for endpoint in six["endpoints"]]) == ("IPv6", [["fd00::1"]])
    assert scene.sync().commands == []
    scene.bench.catch_up()
    scene.bench.show(SERVICES, service())
    [gone] = scene.sync().of(Delete)
    assert gone.uid is not None


@pytest.mark.parametrize(
    ("spec", "types"),
    [
        ({"ipFamilies": ["IPv6"]}, ("IPv6",)),
        ({"clusterIP": "10.0.0.1"}, ("IPv4",)),
        ({"clusterIP": "fd00::1"}, ("IPv6",)),
        ({"clusterIP": "None"}, ("IPv4", "IPv6")),
    ],
)
def test_ip_families_of_services_from_old_servers_are_derived(spec: Object, types: tuple[str, ...]) -> None:
    assert address_types(spec) == types


def test_named_ports_are_resolved_for_each_pod() -> None:
    def with_port(name: str, ip: str, number: int, **more: Any) -> Object:
        ports = [{"name": "http", "containerPort": number, "protocol": "TCP"}]
        return pod(name, ips=(ip,), containers=[{"name": "c", "ports": ports}], **more)

    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [{"name": "http", "containerPort": 7}]}
    pods = (
        with_port("a", "10.0.0.1", 1),
        with_port("b", "10.0.0.2", 2),
        with_port("c", "10.0.0.3", 1),
        pod("d", ips=("10.0.0.4",), initContainers=[sidecar]),
        pod("e", ips=("10.0.0.5",), initContainers=[{**sidecar, "restartPolicy": None}]),
    )
    named = service(ports=[{"name": "web", "port": 80, "protocol": "TCP", "targetPort": "http", "appProtocol": "h2c"}])
    scene = Scene(*pods, service=named)
    found = {
        tuple(port["port"] for port in slice_["ports"]): [each["targetRef"]["name"] for each in slice_["endpoints"]]
        for slice_ in map(written, scene.sync().commands)
    }
    assert found == {(1,): ["a", "c"], (2,): ["b"], (7,): ["d"], (): ["e"]}
    assert scene.sync().commands == []


def test_headless_service_without_ports_has_label_and_hostnames() -> None:
    inside = pod("a", hostname="a", subdomain="web")
    other = pod("b", ips=("10.0.0.2",), hostname="b", subdomain="elsewhere")
    scene = Scene(inside, other, service=service(ports=[], clusterIP="None"))
    [create] = scene.sync().commands
    slice_ = written(create)
    assert slice_["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert slice_["ports"] == []
    assert [endpoint.get("hostname") for endpoint in slice_["endpoints"]] == ["a", None]
    assert scene.sync().commands == []


def test_pod_with_unknown_node_is_omitted_and_retried() -> None:
    scene = Scene(pod("a"), pod("b", ips=("10.0.0.2",), node="n9"), service=service())
    driven = scene.sync(raises=MissingNodeError)
    assert [endpoint["targetRef"]["name"] for endpoint in written(driven.commands[0])["endpoints"]] == ["a"]
    [event] = driven.records
    text = "skipping Pod b for Service default/web: Node n9 Not Found"
    assert (event.reason, event.message) == (
        "FailedToUpdateEndpointSlices",
        f"Error updating Endpoint Slices for Service default/web: {text}",
    )
    scene.bench.show(SERVICES, service(publishNotReadyAddresses=True))
    [update] = scene.sync().of(Update)
    assert [endpoint["targetRef"]["name"] for endpoint in written(update)["endpoints"]] == ["a", "b"]


def test_errors_are_recorded_with_the_text_of_upstream() -> None:
    both = service(ipFamilies=["IPv4", "IPv6"])
    lost = [pod(name, ips=("10.0.0.2", "fd00::2"), node=f"no-{name}") for name in "bc"]
    scene = Scene(pod("a", ips=("10.0.0.1", "fd00::1")), *lost, service=both)
    refused = Forbidden("because")

    def refuse_six(command: Command) -> Outcome:
        assert isinstance(command, Create)
        return refused if decode_object(command.body)["addressType"] == "IPv6" else scene.bench.accept(command)

    [event] = scene.sync(refuse_six, raises=CommandError).records
    assert event.message == (
        "Error updating Endpoint Slices for Service default/web: ["
        "skipping Pod b for Service default/web: Node no-b Not Found, "
        "skipping Pod c for Service default/web: Node no-c Not Found, "
        "failed to create EndpointSlice for Service default/web: because]"
    )
    [slice_] = scene.slices()
    name = slice_["metadata"]["name"]
    scene.bench.show(SERVICES, service(ipFamilies=["IPv6"]))
    [event] = scene.sync(lambda _: refused, raises=CommandError).records
    assert event.message.endswith(f", error deleting {name} EndpointSlice for Service default/web: because]")


def test_updates_are_sequential_and_stop_at_the_first_failure() -> None:
    """Check that updates are not concurrent, so that changes of pods accumulate between them.

    With concurrent updates, a rolling update of 500 pods took twice as many writes.
    """
    pods = [pod(f"p{number}", ips=(f"10.0.0.{number}",)) for number in range(1, 7)]
    scene = Scene(*pods, service=service(), max_endpoints=2)
    assert [len(batch) for batch in scene.sync().batches] == [3]
    for number in range(1, 7):
        scene.bench.show(PODS, pod(f"p{number}", ips=(f"10.0.0.{number}",), ready=False))
    failed = scene.sync(lambda _: Forbidden("no"), raises=CommandError)
    assert [[type(command) for command in batch] for batch in failed.batches] == [[Update]]
    assert [[type(command) for command in batch] for batch in scene.sync().batches] == [[Update]] * 3


@pytest.mark.parametrize("spec", [{"selector": None}, {"type": "ExternalName"}])
def test_services_without_selector_or_of_another_proxy_are_ignored(spec: Object) -> None:
    assert Scene(pod("a"), service=service(**spec)).sync().commands == []


def test_empty_selector_selects_every_pod() -> None:
    [create] = Scene(pod("a", labels={}), service=service(selector={})).sync().commands
    assert len(written(create)["endpoints"]) == 1


def test_trigger_time_is_annotated_and_removed() -> None:
    scene = Scene(pod("a"), service=service())
    scene.sync()
    scene.bench.show(PODS, pod("a", ready=False, since="2026-01-01T00:00:20Z"))
    scene.bench.show(PODS, pod("b", ips=("10.0.0.2",), since="2026-01-01T00:00:30Z"))
    [update] = scene.sync().of(Update)
    assert written(update)["metadata"]["annotations"] == {TRIGGER: "2026-01-01T00:00:20Z"}
    scene.bench.hide(PODS, "default/b")
    [update] = scene.sync().of(Update)
    assert written(update)["metadata"]["annotations"] == {}


def test_creation_with_unknown_outcome_is_repeated_with_the_same_name() -> None:
    scene = Scene(pod("a"), service=service())
    lost: list[Object] = []

    def lose(command: Command) -> Outcome:
        done = scene.bench.accept(command)
        assert isinstance(done, Done)
        lost.append(decode_object(done.body))
        return Unknown("timed out")

    scene.sync(lose, raises=CommandError)
    scene.bench.show(SERVICES, {**service(), "metadata": {**service()["metadata"], "labels": {"tier": "front"}}})

    def there(command: Command) -> Outcome:
        return AlreadyExists() if isinstance(command, Create) else Done(encode_object(lost[0]))

    again = scene.sync(there, raises=CommandError)
    assert written(again.commands[0])["metadata"]["name"] == lost[0]["metadata"]["name"]
    [update] = scene.sync().of(Update)
    assert written(update)["metadata"]["labels"]["tier"] == "front"


def test_nothing_is_created_for_terminating_service_or_namespace() -> None:
    going = service()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert Scene(pod("a"), service=going).sync().commands == []
    status = encode_object({"details": {"causes": [{"reason": "NamespaceTerminating"}]}})
    driven = Scene(pod("a"), service=service()).sync(lambda _: Forbidden("no", status))
    assert (driven.error, driven.records) == (None, [])


def test_sync_is_delayed_after_writes_of_the_previous_one() -> None:
    scene = Scene(pod("a"), service=service())
    assert scene.sync(after=0.0).of(Create)
    scene.bench.show(PODS, pod("a", ready=False))
    early = scene.sync(after=0.03)
    assert early.commands == []
    assert [(enqueue.queue, enqueue.key, round(enqueue.after, 3)) for enqueue in early.enqueued] == [(QUEUE, KEY, 0.07)]
    scene.bench.show(PODS, pod("b", ips=("10.0.0.2",)))
    [update] = scene.sync(after=0.07).of(Update)
    assert [endpoint["conditions"]["ready"] for endpoint in written(update)["endpoints"]] == [False, True]


def test_sync_without_writes_does_not_delay_the_next() -> None:
    scene = Scene(pod("a"), service=service())
    scene.sync()
    assert scene.sync(after=1.0).commands == []
    scene.bench.show(PODS, pod("a", ready=False))
    assert scene.sync(after=0.0).of(Update)


def test_slices_of_other_managers_and_deleted_slices_are_ignored() -> None:
    owner = owner_reference({"metadata": {"name": "web", "uid": "uid-of-web"}}, api_version="v1", kind="Service")
    labels = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "somebody"}
    meta = {"name": "x", "namespace": "default", "labels": labels, "ownerReferences": [owner]}
    others = {"metadata": meta, "addressType": "IPv4", "endpoints": []}
    ours = {**labels, "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
    going = {**meta, "name": "y", "labels": ours, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    scene = Scene(pod("a"), service=service(), slices=(others, {**others, "metadata": going}))
    assert [type(command) for command in scene.sync().commands] == [Create]


def test_only_slice_changes_by_others_enqueue_the_service() -> None:
    scene = Scene(pod("a"), service=service())
    scene.sync()
    [slice_] = scene.slices()

    def shown(obj: Object, type: str = "MODIFIED") -> list[Enqueue]:
        change = Change(type=type, key="default/" + obj["metadata"]["name"], raw=encode_object(obj), controller=None)
        [key] = slice_change(change, scene.bench.tables)
        found = []
        for yielded in scene.reconciler.reconcile_slice(key):
            assert isinstance(yielded, Enqueue)
            found.append(yielded)
        return found

    assert shown(slice_, "ADDED") == []
    later = {**slice_["metadata"], "resourceVersion": "999999"}
    assert shown({**slice_, "metadata": later}) == [Enqueue(QUEUE, KEY, after=1.0)]
    relabelled = {**later, "labels": {"kubernetes.io/service-name": "web"}}
    assert shown({**slice_, "metadata": relabelled}) == [Enqueue(QUEUE, KEY, after=1.0)]
    assert shown(slice_, "DELETED") == [Enqueue(QUEUE, KEY, after=1.0)]
    stranger = {**slice_["metadata"], "name": "other", "labels": {"kubernetes.io/service-name": "web"}}
    assert shown({**slice_, "metadata": stranger}) == []
