"""Tests of the service load balancer controller in a simulated cluster with a fake cloud."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.cloud.service_lb.load_balancers import FINALIZER
from kcm.actors.controllers.cloud.service_lb.spec import ERRORS, PASSES, SPEC, SYNCS, UPDATES
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.cloud import (
    DeleteLoadBalancer,
    EnsureLoadBalancer,
    GetLoadBalancer,
    UpdateLoadBalancer,
)
from kcm.protocols.nodes import EXCLUDE_BALANCERS, LEAVING
from kcm.protocols.objects import Object, finalizers_of, make_key, uid_of
from kcm.protocols.resources import EVENTS, NODES, SERVICES
from kcm.runtime.cloud.fake import FakeCloud, FakeLoadBalancers
from kcm.runtime.cloud.provider import ImplementedElsewhereError, RetryAfterError
from kcm.runtime.faults.vocabulary import parse_faults
from tests.actors.controllers.nodes.fleet import options_of
from tests.support.objects import node

WEB = "default/web"
FIRST_ADDRESS = "203.0.113.1"


class Cloud(FakeCloud):
    """Fake cloud whose next calls fail. failing: errors of the next calls, by method."""

    def __init__(self) -> None:
        super().__init__()
        self.load_balancers = _Failing(self)
        self.failing: dict[str, list[Exception]] = {}


class _Failing(FakeLoadBalancers):
    def __init__(self, cloud: Cloud) -> None:
        super().__init__()
        self._cloud = cloud

    def _fail(self, method: str) -> None:
        if self._cloud.failing.get(method):
            raise self._cloud.failing[method].pop(0)

    def get(self, cluster: str, service: Object) -> Object | None:
        self._fail("get")
        return super().get(cluster, service)

    def ensure(self, cluster: str, service: Object, nodes: Sequence[Object]) -> Object:
        self._fail("ensure")
        return super().ensure(cluster, service, nodes)

    def update(self, cluster: str, service: Object, nodes: Sequence[Object]) -> None:
        self._fail("update")
        super().update(cluster, service, nodes)

    def delete(self, cluster: str, service: Object) -> None:
        self._fail("delete")
        super().delete(cluster, service)


class Scene:
    """Simulated cluster with nodes n1 and n2, a fake cloud, and a manager that runs only service-lb-controller."""

    def __init__(self, cluster: SimulatedCluster, *flags: str) -> None:
        assert isinstance(cluster.cloud, Cloud)
        self.cluster, self.cloud = cluster, cluster.cloud
        for name in ("n1", "n2"):
            cluster.create(NODES, node(name))
        self.manager: ControllerSystem = cluster.manager(
            controllers=[SPEC], options=options_of("--cloud-provider=fake", *flags)
        )
        cluster.run_for(1.0)

    def service(self, name: str = "web", **spec: Any) -> Object:
        """Create a Service, and let the controller process it."""
        spec = {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}], **spec}
        made = self.cluster.create(SERVICES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        self.cluster.run_for(1.0)
        return made

    def merge(self, changes: Object) -> None:
        self.cluster.merge(SERVICES, WEB, changes)
        self.cluster.run_for(1.0)

    def web(self) -> Object:
        found = self.cluster.get(SERVICES, WEB)
        assert found is not None
        return found

    def address(self, name: str = "web") -> str | None:
        service = self.cluster.get(SERVICES, make_key("default", name)) or {}
        ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or [{}]
        return ingress[0].get("ip")

    def events(self, about: str = "web") -> list[tuple[str, str, str]]:
        """Return the events about a Service in their order, each repeated by its count."""
        events = [event for event in self.cluster.list(EVENTS) if event["involvedObject"]["name"] == about]
        assert all(event["source"] == {"component": "service-controller"} for event in events)
        return [
            (event["type"], event["reason"], event["message"])
            for event in sorted(events, key=lambda event: event["firstTimestamp"])
            for _ in range(event.get("count") or 1)
        ]

    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events()]

    def calls(self) -> list[str]:
        names = {
            GetLoadBalancer: "get",
            EnsureLoadBalancer: "ensure",
            UpdateLoadBalancer: "update",
            DeleteLoadBalancer: "delete",
        }
        return [names[type(call)] for _, call in self.cluster.calls.made if type(call) in names]

    def writes(self) -> list[str]:
        return [
            f"{request.method} {request.path.rpartition('/services/')[2]}"
            for _, client, request in self.cluster.transport.requests
            if client == "service-controller" and request.method != "GET" and "/services/" in request.path
        ]

    def sent_to(self, name: str = "web") -> tuple[str, ...] | None:
        service = self.cluster.get(SERVICES, make_key("default", name))
        return None if service is None else self.cloud.load_balancers.nodes.get(uid_of(service))


@pytest.fixture
def scene(make_cluster: Callable[..., SimulatedCluster]) -> Scene:
    return Scene(make_cluster(cloud=Cloud()))


def test_service_gets_load_balancer_and_address(scene: Scene) -> None:
    scene.service()
    assert finalizers_of(scene.web()) == (FINALIZER,)
    assert scene.web()["status"]["loadBalancer"] == {"ingress": [{"ip": FIRST_ADDRESS, "ipMode": "VIP"}]}
    assert scene.sent_to() == ("n1", "n2")
    assert scene.events() == [
        ("Normal", "EnsuringLoadBalancer", "Ensuring load balancer"),
        ("Normal", "EnsuredLoadBalancer", "Ensured load balancer"),
    ]
    assert scene.writes() == ["PATCH web/status", "PATCH web/status"], "the finalizer, then the status"
    assert scene.calls() == ["get", "ensure"], "support for load balancers is queried once"
    scene.cluster.run_for(600.0)
    assert scene.calls() == ["get", "ensure"]


@pytest.mark.parametrize(
    ("spec", "calls", "writes"),
    [
        ({"type": "ClusterIP"}, [], 0),
        ({"type": "NodePort"}, [], 0),
        ({"ports": [{"port": 53, "protocol": "UDP"}]}, ["get", "ensure"], 2),
        ({"ports": [{"port": 80, "protocol": "SCTP"}]}, ["get", "ensure"], 2),
        ({"loadBalancerClass": "example.com/other"}, [], 0),
        ({"externalTrafficPolicy": "Local"}, ["get", "ensure"], 2),
    ],
)
def test_load_balancer_is_created_only_for_its_type_and_class(
    scene: Scene, spec: Object, calls: list[str], writes: int
) -> None:
    scene.service(**spec)
    assert scene.calls() == calls
    assert len(scene.writes()) == writes


def test_finalizer_is_appended_to_others(scene: Scene) -> None:
    meta = {"name": "web", "namespace": "default", "finalizers": ["example.com/other"]}
    spec = {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80}]}
    scene.cluster.create(SERVICES, {"metadata": meta, "spec": spec})
    scene.cluster.run_for(1.0)
    assert finalizers_of(scene.web()) == ("example.com/other", FINALIZER)


@pytest.mark.parametrize("loaded", [True, False])
def test_service_with_finalizer_but_without_load_balancer_type_is_cleaned_up(
    make_cluster: Callable[..., SimulatedCluster], loaded: bool
) -> None:
    """Check a Service with a finalizer that another manager has left. loaded: whether its load balancer exists."""
    cluster = make_cluster(cloud=Cloud())
    meta = {"name": "web", "namespace": "default", "finalizers": [FINALIZER]}
    made = cluster.create(SERVICES, {"metadata": meta, "spec": {"type": "ClusterIP", "ports": [{"port": 80}]}})
    assert isinstance(cluster.cloud, Cloud)
    if loaded:
        cluster.cloud.load_balancers.ensure("kubernetes", made, [])
    scene = Scene(cluster)
    assert scene.calls() == (["get", "delete"] if loaded else ["get"])
    assert finalizers_of(scene.web()) == ()
    assert scene.reasons() == (["DeletingLoadBalancer"] if loaded else []) + ["DeletedLoadBalancer"]
    assert len(scene.writes()) == 1


def test_load_balancer_is_deleted_when_the_type_changes(scene: Scene) -> None:
    scene.service()
    scene.merge({"spec": {"type": "NodePort"}})
    assert scene.calls() == ["get", "ensure", "get", "delete"]
    assert finalizers_of(scene.web()) == ()
    assert scene.address() is None
    assert scene.reasons()[-2:] == ["DeletingLoadBalancer", "DeletedLoadBalancer"]
    assert scene.events()[-2:] == [
        ("Normal", "DeletingLoadBalancer", "Deleting load balancer"),
        ("Normal", "DeletedLoadBalancer", "Deleted load balancer"),
    ]
    scene.merge({"spec": {"type": "LoadBalancer"}})
    assert scene.address() == FIRST_ADDRESS


def test_service_is_deleted_after_its_load_balancer(scene: Scene) -> None:
    scene.service()
    scene.cloud.failing["delete"] = [RuntimeError("busy")]
    scene.cluster.delete(SERVICES, WEB)
    scene.cluster.run_for(3.0)
    assert scene.web()["metadata"]["deletionTimestamp"]
    failed = "Error syncing load balancer: failed to delete load balancer: busy"
    assert scene.events()[-1] == ("Warning", "SyncLoadBalancerFailed", failed)
    scene.cluster.run_for(5.0)
    assert scene.cluster.get(SERVICES, WEB) is None
    assert scene.reasons()[-1] == "DeletedLoadBalancer"


def test_only_relevant_changes_of_a_service_call_the_cloud(scene: Scene) -> None:
    scene.service()
    scene.merge({"spec": {"selector": {"app": "web"}}, "metadata": {"labels": {"app": "web"}}})
    assert scene.calls() == ["get", "ensure"]
    scene.merge({"spec": {"externalTrafficPolicy": "Local"}})
    scene.merge({"metadata": {"annotations": {"example.com/speed": "fast"}}})
    assert scene.calls() == ["get", "ensure", "ensure", "ensure"]
    assert len(scene.writes()) == 2, "the status is unchanged"


@pytest.mark.parametrize("fault", ["http-held 5..9", "process-paused 5..9", "watch-dropped 5..9"])
def test_address_is_restored_after_a_short_change_of_type(
    make_cluster: Callable[..., SimulatedCluster], fault: str
) -> None:
    """Check a Service whose type is changed and changed back.

    The API server removes the address, and the controller observes only the last version.
    """
    scene = Scene(make_cluster(cloud=Cloud(), faults=parse_faults(fault)))
    scene.service()
    address = scene.address()
    assert address is not None
    scene.cluster.run_for(4.0)
    for type_ in ("ClusterIP", "LoadBalancer"):
        scene.cluster.merge(SERVICES, WEB, {"spec": {"type": type_}})
    assert scene.address() is None
    scene.cluster.run_for(10.0)
    assert scene.address() == address
    before = scene.web()["metadata"]["resourceVersion"]
    scene.cluster.run_for(60.0)
    assert scene.web()["metadata"]["resourceVersion"] == before


def test_load_balancer_is_updated_with_the_current_nodes(scene: Scene) -> None:
    scene.service()
    scene.cluster.create(NODES, node("n3"))
    scene.cluster.run_for(1.0)
    assert scene.sent_to() == ("n1", "n2", "n3")
    scene.cluster.merge(NODES, "n2", {"metadata": {"labels": {EXCLUDE_BALANCERS: ""}}})
    scene.cluster.run_for(1.0)
    assert scene.sent_to() == ("n1", "n3")
    scene.cluster.merge(NODES, "n1", {"spec": {"taints": [{"key": LEAVING, "effect": "NoSchedule"}]}})
    scene.cluster.run_for(1.0)
    assert scene.sent_to() == ("n1", "n3"), "a leaving node stays until the next change"
    scene.cluster.delete(NODES, "n2")
    scene.cluster.run_for(1.0)
    assert scene.sent_to() == ("n3",)
    scene.cluster.delete(NODES, "n3")
    scene.cluster.run_for(1.0)
    assert scene.sent_to() == ()
    assert scene.reasons()[2:] == ["UpdatedLoadBalancer"] * 3 + ["UnAvailableLoadBalancer"]
    assert scene.events()[-1] == ("Warning", "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
    assert scene.calls() == ["get", "ensure", "update", "update", "update", "update"]
    assert scene.manager.metrics.counter(SYNCS).value == 4
    assert scene.manager.metrics.histogram(UPDATES).counts[0] == 4
    assert scene.manager.metrics.histogram(PASSES).counts[0] >= 4


@pytest.mark.parametrize("workers", [1, 2])
def test_all_load_balancers_are_updated_for_a_new_node(
    make_cluster: Callable[..., SimulatedCluster], workers: int
) -> None:
    scene = Scene(make_cluster(cloud=Cloud()), f"--concurrent-service-syncs={workers}")
    for name in ("a", "b", "c", "d"):
        scene.service(name)
    scene.service("e", type="ClusterIP")
    before = len(scene.calls())
    scene.cluster.create(NODES, node("n3"))
    scene.cluster.run_for(1.0)
    assert scene.calls()[before:] == ["update"] * 4
    assert all(scene.sent_to(name) == ("n1", "n2", "n3") for name in "abcd")


def test_load_balancer_is_created_without_nodes(scene: Scene) -> None:
    for name in ("n1", "n2"):
        scene.cluster.delete(NODES, name)
    scene.service()
    assert scene.reasons() == ["EnsuringLoadBalancer", "UnAvailableLoadBalancer", "EnsuredLoadBalancer"]
    assert scene.address() == FIRST_ADDRESS


def test_failed_update_of_hosts_is_retried(scene: Scene) -> None:
    scene.service()
    scene.cloud.failing["update"] = [RuntimeError("quota")]
    scene.cluster.create(NODES, node("n3"))
    scene.cluster.run_for(1.0)
    message = (
        "Error updating load balancer with new hosts [n1 n2 n3] "
        "[node names limited, total number of nodes: 3], error: quota"
    )
    assert ("Warning", "UpdateLoadBalancerFailed", message) in scene.events()
    assert scene.calls() == ["get", "ensure", "update", "get", "ensure"]
    assert scene.sent_to() == ("n1", "n2", "n3")
    assert scene.manager.metrics.counter(ERRORS).value == 1


def test_externally_deleted_load_balancer_is_created_again_when_nodes_change(scene: Scene) -> None:
    made = scene.service()
    scene.cloud.load_balancers.delete("kubernetes", made)
    scene.cluster.create(NODES, node("n3"))
    scene.cluster.run_for(1.0)
    assert scene.sent_to() == ("n1", "n2", "n3")
    assert "UpdateLoadBalancerFailed" not in scene.reasons()


@pytest.mark.parametrize(
    ("method", "what"),
    [("ensure", "failed to ensure load balancer"), ("get", "failed to check if load balancer exists before cleanup")],
)
def test_failure_is_retried_after_five_then_ten_seconds(scene: Scene, method: str, what: str) -> None:
    scene.service()
    scene.cloud.failing[method] = [RuntimeError("rain"), RuntimeError("rain")]
    scene.merge({"spec": {"type": "ClusterIP"}} if method == "get" else {"metadata": {"annotations": {"a": "b"}}})
    before = len(scene.calls())
    scene.cluster.run_for(3.9)
    assert len(scene.calls()) == before
    scene.cluster.run_for(0.5)
    assert len(scene.calls()) == before + 1
    scene.cluster.run_for(9.0)
    assert len(scene.calls()) == before + 1
    scene.cluster.run_for(1.5)
    assert len(scene.calls()) > before + 1
    failed = ("Warning", "SyncLoadBalancerFailed", f"Error syncing load balancer: {what}: rain")
    assert scene.events().count(failed) == 2
    assert not scene.cloud.failing[method]


def test_retry_after_of_the_cloud_is_respected(scene: Scene) -> None:
    scene.cloud.failing["ensure"] = [RetryAfterError("quota", 42.0)]
    scene.service()
    scene.cluster.run_for(40.0)
    assert scene.calls() == ["get", "ensure"]
    scene.cluster.run_for(3.0)
    assert scene.calls() == ["get", "ensure", "ensure"]
    assert scene.address() == FIRST_ADDRESS


def test_load_balancer_implemented_elsewhere_is_ignored(scene: Scene) -> None:
    scene.cloud.failing = {method: [ImplementedElsewhereError()] * 9 for method in ("ensure", "update", "delete")}
    scene.service()
    assert scene.address() is None
    scene.cluster.create(NODES, node("n3"))
    scene.cluster.run_for(1.0)
    scene.merge({"spec": {"type": "ClusterIP"}})
    assert finalizers_of(scene.web()) == ()
    assert scene.reasons() == ["EnsuringLoadBalancer", "DeletedLoadBalancer"]


def test_missing_status_from_the_cloud_is_a_failure(scene: Scene) -> None:
    scene.cloud.load_balancers.ensure = lambda *_: None  # type: ignore[assignment,method-assign,return-value]
    scene.service()
    message = "Error syncing load balancer: service status returned by EnsureLoadBalancer is nil"
    assert scene.events()[-1] == ("Warning", "SyncLoadBalancerFailed", message)


def test_no_finalizer_is_written_without_load_balancer_support(make_cluster: Callable[..., SimulatedCluster]) -> None:
    cluster = make_cluster(cloud=Cloud())
    scene = Scene(cluster)
    cluster.cloud.load_balancers = None  # type: ignore[union-attr,misc]
    scene.service()
    scene.service("api")
    assert scene.calls() == ["get"]
    assert finalizers_of(scene.web()) == ()


def test_service_without_cloud_support_does_not_block_node_updates(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    """Check a Service with the finalizer in a cloud without load balancers."""
    cluster = make_cluster(cloud=Cloud())
    scene = Scene(cluster)
    cluster.cloud.load_balancers = None  # type: ignore[union-attr,misc]
    meta = {"name": "web", "namespace": "default", "finalizers": [FINALIZER]}
    cluster.create(SERVICES, {"metadata": meta, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
    cluster.run_for(1.0)
    scene.service("api")
    passes = scene.manager.metrics.histogram(PASSES)
    before = passes.counts[0]
    cluster.create(NODES, node("n3"))
    cluster.run_for(1.0)
    assert passes.counts[0] > before


def test_load_balancer_of_service_recreated_without_finalizer_is_not_leaked(scene: Scene) -> None:
    """Check a Service that is recreated under its name, after a user has removed the finalizer."""
    first = scene.service()
    scene.cluster.merge(SERVICES, WEB, {"metadata": {"finalizers": None}})
    scene.cluster.delete(SERVICES, WEB)
    scene.service()
    assert uid_of(first) not in scene.cloud.load_balancers.nodes
    assert scene.sent_to() == ("n1", "n2")
    assert scene.address() is not None


def test_load_balancer_of_service_deleted_without_finalizer_is_deleted(scene: Scene) -> None:
    first = scene.service()
    scene.cloud.failing["delete"] = [RuntimeError("busy")]
    scene.cluster.merge(SERVICES, WEB, {"metadata": {"finalizers": None}})
    scene.cluster.delete(SERVICES, WEB)
    scene.cluster.run_for(10.0)
    assert uid_of(first) not in scene.cloud.load_balancers.nodes
    assert ("Warning", "DeleteLoadBalancerFailed", "Error deleting load balancer: busy") in scene.events()
    assert scene.reasons()[-1] == "DeletedLoadBalancer"


def test_removed_finalizer_is_added_again(scene: Scene) -> None:
    scene.service()
    scene.merge({"metadata": {"finalizers": None}})
    assert finalizers_of(scene.web()) == (FINALIZER,)


def test_cleaned_up_service_with_foreign_finalizer_is_ignored(scene: Scene) -> None:
    scene.service()
    scene.merge({"metadata": {"finalizers": [FINALIZER, "example.com/other"]}})
    scene.cluster.delete(SERVICES, WEB)
    scene.cluster.run_for(1.0)
    assert finalizers_of(scene.web()) == ("example.com/other",)
    calls = len(scene.calls())
    scene.cluster.run_for(400.0)
    assert len(scene.calls()) == calls


def test_updates_of_hosts_are_sent_in_order(scene: Scene) -> None:
    """Check that calls for one Service are sequential, if nodes and the Service change during a call of 20 s."""
    scene.service()
    scene.cluster.calls.latency = 20.0
    scene.cluster.create(NODES, node("n3"))
    scene.cluster.run_for(5.0)
    scene.cluster.delete(NODES, "n1")
    scene.cluster.merge(SERVICES, WEB, {"metadata": {"annotations": {"a": "b"}}})
    scene.cluster.run_for(10.0)
    assert scene.calls() == ["get", "ensure", "update"], "the other calls wait"
    scene.cluster.run_for(60.0)
    assert scene.sent_to() == ("n2", "n3")


@pytest.mark.parametrize(
    "faults",
    [
        "call-lost 0..20 resource=loadbalancers",
        "call-hung 0..20 resource=loadbalancers seconds=30",
        "call-hung 0..20 resource=loadbalancers most=1",
        "call-repeated 0..20 resource=loadbalancers",
        "call-answered 0..20 resource=loadbalancers status=503",
        "call-answered 0..20 resource=loadbalancers status=429 seconds=7",
        "answer-lost 0..20 resource=loadbalancers",
        "answer-delayed 0..20 resource=loadbalancers seconds=15",
        "outcome-lost 0..20 resource=services",
        "command-lost 0..20 resource=services",
        "command-answered 0..20 resource=services status=409",
        "actor-crashed 0..20 rate=0.3 actor=controller:service-lb-controller",
        "watch-lagging 0..20 seconds=9 resource=services",
    ],
)
def test_end_state_is_the_same_under_faults(make_cluster: Callable[..., SimulatedCluster], faults: str) -> None:
    scene = Scene(make_cluster(cloud=Cloud(), faults=parse_faults(faults), seed=3))
    scene.service()
    scene.service("api")
    scene.cluster.create(NODES, node("n3"))
    scene.cluster.run_for(5.0)
    scene.cluster.merge(SERVICES, "default/api", {"spec": {"type": "ClusterIP"}})
    scene.cluster.run_for(600.0)
    assert scene.sent_to() == ("n1", "n2", "n3")
    assert scene.address() is not None
    assert finalizers_of(scene.web()) == (FINALIZER,)
    api = scene.cluster.get(SERVICES, "default/api")
    assert api is not None
    assert finalizers_of(api) == ()
    assert scene.address("api") is None
    assert set(scene.cloud.load_balancers.nodes) == {uid_of(scene.web())}


def test_equal_events_are_recorded_once_a_minute(scene: Scene) -> None:
    scene.cloud.failing["ensure"] = [RetryAfterError("quota", 0.5)] * 140
    scene.service()
    scene.cluster.run_for(30.0)
    assert scene.calls().count("ensure") > 50
    assert scene.reasons() == ["EnsuringLoadBalancer", "SyncLoadBalancerFailed"]
    scene.cluster.run_for(60.0)
    assert sorted(scene.reasons()) == sorted(
        ["EnsuringLoadBalancer", "SyncLoadBalancerFailed"] * 2 + ["EnsuredLoadBalancer"]
    )


def test_load_balancer_created_late_by_a_hung_call_is_deleted_with_its_service(
    make_cluster: Callable[..., SimulatedCluster],
) -> None:
    faults = parse_faults("call-hung 5..20 resource=loadbalancers most=1 seconds=150")
    scene = Scene(make_cluster(cloud=Cloud(), faults=faults))
    scene.service("first")  # after this, the controller has cached that the cloud supports load balancers
    scene.cluster.run_for(5.0)
    scene.service()
    scene.cluster.run_for(120.0)  # the call has timed out
    scene.cluster.delete(SERVICES, WEB)
    scene.cluster.run_for(15.0)
    assert finalizers_of(scene.web()) == (FINALIZER,)
    scene.cluster.run_for(600.0)
    assert scene.cluster.get(SERVICES, WEB) is None
    assert len(scene.cloud.load_balancers.nodes) == 1
