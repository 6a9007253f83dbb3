"""Namespace controller in a simulated cluster: requests, their order, and failures."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.apimachinery import garbage_collector, namespace
from kcm.actors.controllers.apimachinery.namespace.content import PAGE
from kcm.actors.controllers.apimachinery.namespace.reconciler import MAX_CONFLICTS
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, encode_object, is_deleting, make_key
from kcm.protocols.resources import ENDPOINT_SLICES, LEASES, NAMESPACES, PODS, SECRETS, Resource
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.vocabulary import parse_faults
from tests.actors.engine.discovery.test_discovered_resources import CRDS, THINGS, crd

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
NAME = "namespace-controller"
HOLD = "example.com/hold"


class Team:
    """Cluster with a manager that runs the namespace controller, and the namespace `team`.

    servers: number of API servers with a Lease.
    """

    def __init__(self, log: FilteringBoundLogger, *, shares: bool = False, faults: str = "", servers: int = 1) -> None:
        self.cluster = SimulatedCluster(log=log, faults=parse_faults(faults))
        for number in range(servers):
            labels = {"apiserver.kubernetes.io/identity": "kube-apiserver"}
            meta = {"name": f"apiserver-{number}", "namespace": "kube-system", "labels": labels}
            self.cluster.create(LEASES, {"metadata": meta})
        self.cluster.network.witnesses.append(self)
        self.asked: list[str] = []  # requests of the controller: method, path in the namespace, and status of errors
        specs = (namespace.SPEC, garbage_collector.SPEC) if shares else (namespace.SPEC,)
        self.system = self.cluster.manager(controllers=specs)
        self.cluster.create(NAMESPACES, {"metadata": {"name": "team"}})
        self.cluster.run_for(1.0)

    def sent(self, process: str, client: str, request: Request) -> None:
        pass

    def carried_out(self, _process: str, client: str, request: Request, response: Response) -> None:
        if client == NAME:
            path = request.path.partition("/namespaces/")[2] or request.path
            refused = f" {response.status}" if response.status >= 300 else ""
            limited = f"?limit={request.query['limit']}" if "limit" in request.query else ""
            self.asked.append(f"{request.method} {path}{limited}{refused}")

    def add(self, resource: Resource, name: str, *, spec: Object | None = None, **meta: Any) -> None:
        obj: Object = {"metadata": {"name": name, "namespace": "team", **meta}}
        if resource is PODS:
            obj["spec"] = spec or {"containers": [{"name": "c", "image": "i"}]}
        self.cluster.create(resource, obj)

    def delete(self) -> None:
        self.cluster.delete(NAMESPACES, "team")

    def gone(self, *, within: float) -> bool:
        return self.cluster.run_until(lambda: self.get() is None, within=within)

    def get(self) -> Object | None:
        return self.cluster.get(NAMESPACES, "team")

    def conditions(self) -> dict[str, str]:
        """Return the messages of the conditions that are True."""
        found = (self.get() or {}).get("status", {}).get("conditions", ())
        return {condition["type"]: condition["message"] for condition in found if condition["status"] == "True"}

    def release(self, resource: Resource, name: str) -> None:
        self.cluster.merge(resource, make_key("team", name), {"metadata": {"finalizers": None}})


@pytest.fixture
def team(log: FilteringBoundLogger) -> Team:
    return Team(log)


# Cases of upstream's unit tests.


def test_active_namespace_is_ignored(team: Team) -> None:
    team.cluster.merge(NAMESPACES, "team", {"metadata": {"labels": {"a": "b"}}})
    team.cluster.run_for(400.0)
    assert team.asked == []


def test_empty_namespace_is_listed_and_finalized(team: Team) -> None:
    team.delete()
    assert team.gone(within=1.5)
    first, *rest = team.asked
    assert first == "GET team"
    assert rest[:3] == ["GET /api", "GET /apis", "GET team/pods?limit=50"] or set(rest[:2]) == {"GET /api", "GET /apis"}
    assert "GET team/configmaps?limit=50" in rest
    assert [request for request in rest if request.startswith("DELETE")] == []
    assert [request for request in rest if request.startswith("PUT")] == ["PUT team/status", "PUT team/finalize"]


def test_own_finalizer_is_removed_from_namespace_with_other_finalizers(team: Team) -> None:
    team.cluster.merge(NAMESPACES, "team", {"metadata": {"finalizers": [HOLD]}})
    team.delete()
    assert not team.gone(within=20.0)
    found = team.get()
    assert found is not None
    assert found["spec"].get("finalizers", []) == []
    assert found["metadata"]["finalizers"] == [HOLD]
    asked = len(team.asked)
    team.cluster.run_for(400.0)
    assert set(team.asked[asked:]) <= {"GET team"}
    team.cluster.merge(NAMESPACES, "team", {"metadata": {"finalizers": None}})
    assert team.gone(within=1.0)


def test_other_finalizers_of_the_spec_are_kept_sorted_and_unique(team: Team) -> None:
    team.cluster.create(NAMESPACES, {"metadata": {"name": "two"}, "spec": {"finalizers": ["z.io/z", "a.io/a"]}})
    team.cluster.delete(NAMESPACES, "two")
    team.cluster.run_for(10.0)
    found = team.cluster.get(NAMESPACES, "two")
    assert found is not None
    assert found["spec"]["finalizers"] == ["a.io/a", "z.io/z"]


# Order and timing.


def test_pods_are_deleted_before_all_other_content(team: Team) -> None:
    team.add(PODS, "p", finalizers=[HOLD])
    team.add(CONFIGMAPS, "c")
    team.delete()
    team.cluster.run_for(60.0)
    assert team.cluster.get(CONFIGMAPS, make_key("team", "c")) is not None
    assert {request.split("?")[0] for request in team.asked} == {
        "GET team",
        "GET /api",
        "GET /apis",
        "GET team/pods",
        "DELETE team/pods",
        "PUT team/status",
    }
    assert team.conditions() == {}  # as upstream: remaining pods are not reported
    team.release(PODS, "p")
    assert team.gone(within=1.0)


@pytest.mark.parametrize("shares", [False, True])
def test_deletion_continues_as_soon_as_the_last_pod_is_deleted(log: FilteringBoundLogger, *, shares: bool) -> None:
    team = Team(log, shares=shares)
    team.cluster.hollow_nodes()
    team.cluster.run_for(5.0)
    team.add(PODS, "p", spec={"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 600})
    assert team.cluster.run_until(lambda: team.cluster.list(PODS, "team")[0]["status"]["phase"] == "Running", within=30)
    team.delete()
    assert team.gone(within=5.0)
    assert team.asked.count("DELETE team/pods") == 1


def test_pages_are_deleted_concurrently(team: Team) -> None:
    for number in range(2 * PAGE + 1):
        team.add(PODS, f"p{number}", finalizers=[HOLD] if number == PAGE else None)
        team.add(CONFIGMAPS, f"c{number}")
    team.delete()
    assert team.cluster.run_until(lambda: len(team.cluster.list(PODS, "team")) == 1, within=2.0)
    pages = [f"DELETE team/pods?limit={PAGE}", f"DELETE team/pods?limit={PAGE}", "DELETE team/pods"]
    assert sorted(request for request in team.asked if request.startswith("DELETE")) == sorted(pages)
    team.release(PODS, f"p{PAGE}")
    assert team.gone(within=2.0)
    of_configs = [page.replace("pods", "configmaps") for page in pages]
    deletions = [request for request in team.asked if request.startswith("DELETE team/configmaps")]
    assert sorted(deletions) == sorted(of_configs)


def test_tables_of_the_garbage_collector_report_remaining_content(log: FilteringBoundLogger) -> None:
    team = Team(log, shares=True)
    team.cluster.run_for(15.0)
    team.add(CONFIGMAPS, "c", finalizers=[HOLD])
    team.delete()
    team.cluster.run_for(4.0)
    assert team.conditions() == {
        "NamespaceContentRemaining": "Some resources are remaining: configmaps. has 1 resource instances",
        "NamespaceFinalizersRemaining": (
            f"Some content in the namespace has finalizers remaining: {HOLD} in 1 resource instances"
        ),
    }
    before = len(team.asked)
    team.cluster.run_for(2.0)
    assert team.asked[before:] == []
    team.release(CONFIGMAPS, "c")
    assert team.gone(within=0.5)


def test_upstreams_estimate_is_used_without_a_garbage_collector(team: Team) -> None:
    assert {table.resource for table in team.system.tables.values()} == {NAMESPACES, PODS}
    team.add(CONFIGMAPS, "c", finalizers=[HOLD])
    team.delete()
    team.cluster.run_for(4.0)
    team.release(CONFIGMAPS, "c")
    assert not team.gone(within=3.5)
    assert team.gone(within=1.0)  # estimate of 15 s for finalizers: retried after 8 s


@pytest.mark.parametrize(("servers", "seconds"), [(0, 5.0), (1, 1.0), (2, 5.0), (3, 5.0)])
def test_namespace_is_finalized_when_no_api_server_admits_objects(
    log: FilteringBoundLogger, servers: int, seconds: float
) -> None:
    team = Team(log, servers=servers)
    team.delete()
    assert not team.gone(within=seconds - 0.1)
    assert team.gone(within=0.5)


def test_api_servers_are_counted_by_endpoints_without_leases(log: FilteringBoundLogger) -> None:
    team = Team(log, servers=0)
    labels = {"kubernetes.io/service-name": "kubernetes"}
    endpoints = [{"addresses": ["10.0.0.1"]}]
    team.cluster.create(
        ENDPOINT_SLICES,
        {"metadata": {"name": "kubernetes", "labels": labels}, "addressType": "IPv4", "endpoints": endpoints},
    )
    team.delete()
    assert team.gone(within=1.5)


def test_object_created_before_other_servers_see_the_deletion_is_deleted(log: FilteringBoundLogger) -> None:
    """Another API server, which has not seen the deletion, stores an object after the namespace was found empty."""
    team = Team(log, servers=2)
    team.delete()
    team.cluster.run_for(3.0)
    late = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": "team", "uid": "u"}}
    state = team.cluster.server._state
    state.put("configmaps", "team/late", late)
    assert team.gone(within=3.0)
    assert team.cluster.list(CONFIGMAPS, "team") == []


# Failures.


def test_custom_resources_are_deleted_even_if_just_defined(team: Team) -> None:
    team.cluster.create(CRDS, crd())
    team.add(THINGS, "t")
    team.delete()
    assert team.gone(within=2.0)
    assert team.cluster.list(THINGS) == []


def test_undiscoverable_group_keeps_the_namespace_but_not_its_content(
    log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team(log)
    team.add(CONFIGMAPS, "c")
    team.add(PODS, "p")
    broken = [True]
    serve = team.cluster.network.serve

    def without_groups(request: Request) -> Response:
        if request.path == "/apis" and broken[0]:
            return Response(status=503, body=b"")
        return serve(request)

    monkeypatch.setattr(team.cluster.network, "serve", without_groups)
    team.delete()
    team.cluster.run_for(30.0)
    assert team.cluster.list(CONFIGMAPS, "team") == []
    assert team.conditions() == {
        "NamespaceDeletionDiscoveryFailure": "the server is currently unable to handle the request"
    }
    broken[0] = False
    assert team.gone(within=60.0)


def test_failed_resource_keeps_the_namespace_but_not_other_resources(
    log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team(log)
    team.add(CONFIGMAPS, "c")
    broken = [True]
    serve = team.cluster.network.serve

    def without_secrets(request: Request) -> Response:
        if request.path.endswith("team/secrets") and broken[0]:
            status = {"kind": "Status", "message": "etcd is full", "reason": "InternalError", "code": 500}
            return Response(status=500, body=encode_object(status))
        return serve(request)

    monkeypatch.setattr(team.cluster.network, "serve", without_secrets)
    team.delete()
    team.cluster.run_for(30.0)
    assert team.cluster.list(CONFIGMAPS, "team") == []
    assert team.conditions() == {
        "NamespaceDeletionContentFailure": "Failed to delete all resource types, 1 remaining: etcd is full"
    }
    broken[0] = False
    assert team.gone(within=90.0)
    assert team.asked[-1] == "PUT team/finalize"


def test_changing_failure_text_does_not_cause_immediate_retries(
    log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team(log)
    team.add(CONFIGMAPS, "c")
    serve = team.cluster.network.serve
    refused: list[str] = []

    def failing(request: Request) -> Response:
        if request.path.endswith("team/configmaps") and request.method == "DELETE":
            refused.append(f"etcd is full: {len(refused)}")
            status = {"kind": "Status", "message": refused[-1], "reason": "InternalError", "code": 500}
            return Response(status=500, body=encode_object(status))
        return serve(request)

    monkeypatch.setattr(team.cluster.network, "serve", failing)
    team.delete()
    team.cluster.run_for(30.0)
    assert team.conditions()["NamespaceDeletionContentFailure"].endswith(refused[-1])
    assert 5 <= len(refused) <= 10  # after 0.1 s, 0.2 s, … 12.8 s


def test_pods_beyond_their_grace_period_are_a_failure_and_retried(team: Team) -> None:
    team.add(PODS, "p")
    team.cluster.create(
        Resource(version="v1", plural="nodes", kind="Node", namespaced=False), {"metadata": {"name": "silent"}}
    )
    team.cluster.request(
        "POST",
        "/api/v1/namespaces/team/pods/p/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"name": "silent"}},
    )
    team.delete()
    team.cluster.run_for(29.0)
    assert team.conditions() == {}
    team.cluster.run_for(30.0)
    assert team.conditions() == {
        "NamespaceDeletionContentFailure": (
            "Failed to delete all resource types, 1 remaining: "
            "unexpected items still remain in namespace: team for gvr: /v1, Resource=pods"
        )
    }
    team.cluster.delete(PODS, make_key("team", "p"), grace_seconds=0)
    assert team.gone(within=6.0)


def test_undeletable_pod_keeps_all_other_content(log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream continues: NetworkPolicies are deleted while the pods that they restrict remain."""
    team = Team(log)
    team.add(PODS, "p")
    team.add(CONFIGMAPS, "c")
    serve = team.cluster.network.serve

    def refusing(request: Request) -> Response:
        if request.method == "DELETE" and request.path.endswith("team/pods"):
            return Response(status=500, body=encode_object({"kind": "Status", "message": "a webhook fails"}))
        return serve(request)

    monkeypatch.setattr(team.cluster.network, "serve", refusing)
    team.delete()
    team.cluster.run_for(60.0)
    assert team.cluster.get(CONFIGMAPS, make_key("team", "c")) is not None
    assert team.conditions() == {
        "NamespaceDeletionContentFailure": "Failed to delete all resource types, 1 remaining: a webhook fails"
    }


def conflicts(team: Team, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this number of updates of the namespace fail with a conflict."""
    left = [number]
    serve = team.cluster.network.serve

    def handling(request: Request) -> Response:
        if request.method == "PUT" and "/namespaces/team/" in request.path and left[0] > 0:
            left[0] -= 1
            team.cluster.merge(NAMESPACES, "team", {"metadata": {"annotations": {"n": str(left[0])}}})
        return serve(request)

    monkeypatch.setattr(team.cluster.network, "serve", handling)


@pytest.mark.parametrize("number", [1, 3, MAX_CONFLICTS + 2])
def test_concurrently_changed_namespace_is_deleted(team: Team, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    conflicts(team, number, monkeypatch)
    team.delete()
    assert team.gone(within=5.0)
    assert len([request for request in team.asked if request.endswith(" 409")]) == number


def test_new_namespace_of_the_same_name_is_ignored(team: Team) -> None:
    team.add(CONFIGMAPS, "old")
    team.delete()
    assert team.gone(within=2.0)
    team.cluster.create(NAMESPACES, {"metadata": {"name": "team"}})
    team.add(CONFIGMAPS, "new")
    team.cluster.run_for(400.0)
    found = team.get()
    assert found is not None
    assert not is_deleting(found)
    assert team.cluster.get(CONFIGMAPS, make_key("team", "new")) is not None


def test_late_deletion_does_not_affect_new_namespace_of_the_same_name(log: FilteringBoundLogger) -> None:
    """DELETE of a collection has no uid as precondition: seed 15000383 of all controllers."""
    team = Team(log, faults="command-delayed 0..300 most=2 seconds=40 process=manager resource=secrets")
    team.add(SECRETS, "old")
    team.delete()
    assert team.gone(within=200.0)
    team.cluster.create(NAMESPACES, {"metadata": {"name": "team"}})
    team.add(SECRETS, "new")
    team.cluster.run_for(100.0)
    assert team.cluster.get(SECRETS, make_key("team", "new")) is not None


@pytest.mark.parametrize("after", [0.002, 0.004, 0.006, 0.01, 0.02, 0.5, 1.0, 1.004, 1.008])
def test_end_state_is_the_same_after_a_crash(team: Team, after: float) -> None:
    team.add(CONFIGMAPS, "c")
    team.add(PODS, "p")
    team.delete()
    team.cluster.run_for(after)
    team.cluster.world.kill(team.system.actors, f"controller:{NAME}")
    assert team.gone(within=15.0)
    assert team.cluster.list(CONFIGMAPS, "team") == []


def test_end_state_is_the_same_after_lost_outcomes(log: FilteringBoundLogger) -> None:
    team = Team(log, faults="outcome-lost 0..30 rate=0.2 seconds=1 process=manager")
    for number in range(5):
        team.add(CONFIGMAPS, f"c{number}")
    team.delete()
    assert team.gone(within=250.0)


def test_flags_and_rate_limit_are_upstreams() -> None:
    options = read_options(["--concurrent-namespace-syncs=3", "--namespace-sync-period=1m", "--kube-api-qps=10"])
    (queue,) = namespace.SPEC.queues
    assert callable(queue.concurrency)
    assert queue.concurrency(options) == 3
    assert callable(namespace.SPEC.resync)
    assert namespace.SPEC.resync(options) == 60.0
    assert callable(namespace.SPEC.qps)
    assert namespace.SPEC.qps(options) == 200.0
    assert callable(namespace.SPEC.burst)
    assert namespace.SPEC.burst(options) == 3000
    assert queue.name == "namespace"


def test_steps_of_the_deletion_are_logged(team: Team, logs: LogCapture) -> None:
    team.add(CONFIGMAPS, "c")
    team.add(PODS, "p")
    team.delete()
    assert team.gone(within=3.0)
    events = [entry["event"] for entry in logs.entries if entry.get("key") == "team" and entry["log_level"] == "info"]
    assert events == ["pods deleted", "content deleted", "namespace finalized"]
