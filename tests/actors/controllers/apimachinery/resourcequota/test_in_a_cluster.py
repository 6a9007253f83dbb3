"""ResourceQuota controller and admission in a simulated cluster."""

from __future__ import annotations

from typing import Any

from structlog.typing import FilteringBoundLogger

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.apimachinery.resourcequota import SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, make_key
from kcm.protocols.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    Resource,
    resource_path,
)
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.actors.engine.discovery.test_discovered_resources import CRDS, THINGS, crd

SOON = 20.0  # seconds until a new resource has a table and is counted


class Limited:
    """Cluster with a manager that runs only the resource quota controller."""

    def __init__(self, log: FilteringBoundLogger, *faults: Fault, flags: tuple[str, ...] = ()) -> None:
        self.cluster = SimulatedCluster(log=log, faults=faults)
        self.cluster.manager(controllers=(SPEC,), options=read_options(list(flags)))
        self.cluster.run_for(1.0)

    def quota(self, hard: Object, **spec: Any) -> None:
        self.cluster.create(RESOURCE_QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})
        self.cluster.run_for(2.0)

    def make(self, resource: Resource, name: str, spec: Object | None = None) -> int:
        """Create an object, and return the HTTP status."""
        body: Object = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        body |= {} if spec is None else {"spec": spec}
        return self.cluster.request("POST", resource_path(resource.id, "default"), body).status

    def pod(self, name: str, cpu: str = "100m") -> int:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        return self.make(PODS, name, {"containers": [container]})

    @property
    def status(self) -> Object:
        found = self.cluster.get(RESOURCE_QUOTAS, "default/q") or {}
        return found.get("status") or {}

    def uses(self, used: Object, *, within: float = 5.0) -> None:
        assert self.cluster.run_until(lambda: self.status.get("used") == used, within=within), self.status

    def writes(self, seconds: float) -> int:
        """Return the number of changes of the quota."""

        def version() -> str:
            return str((self.cluster.get(RESOURCE_QUOTAS, "default/q") or {})["metadata"]["resourceVersion"])

        seen = {version()}
        for _ in range(int(seconds * 10)):
            self.cluster.run_for(0.1)
            seen.add(version())
        return len(seen) - 1


def test_usage_is_counted_and_released_after_deletion(log: FilteringBoundLogger) -> None:
    limited = Limited(log)
    limited.pod("old")
    limited.quota({"pods": "2", "requests.cpu": "1", "count/deployments.apps": "1", "secrets": "1", "services": "0"})
    nothing = {"pods": "1", "requests.cpu": "100m", "count/deployments.apps": "0", "secrets": "0", "services": "0"}
    limited.uses(nothing)
    labels = {"app": "w"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {"selector": {"matchLabels": labels}, "template": template}
    assert [limited.make(DEPLOYMENTS, name, deployment) for name in "ab"] == [201, 403]
    assert [limited.make(SECRETS, name) for name in "ab"] == [201, 403]
    assert limited.make(SERVICES, "s", {"ports": [{"port": 80}]}) == 403
    assert [limited.pod(name) for name in "ab"] == [201, 403]
    limited.uses({**nothing, "pods": "2", "requests.cpu": "200m", "count/deployments.apps": "1", "secrets": "1"})
    limited.cluster.run_for(1.0)
    for resource, name in ((DEPLOYMENTS, "a"), (SECRETS, "a"), (PODS, "a")):
        limited.cluster.delete(resource, make_key("default", name))
    limited.uses(nothing)
    limited.cluster.merge(PODS, "default/old", {"status": {"phase": "Succeeded"}}, subresource="status")
    limited.uses({**nothing, "pods": "0", "requests.cpu": "0"})
    assert limited.writes(400.0) == 0  # although it is recounted


def test_resource_quotas_are_counted(log: FilteringBoundLogger) -> None:
    limited = Limited(log)
    limited.quota({"resourcequotas": "2", "count/resourcequotas": "2"})
    limited.uses({"resourcequotas": "1", "count/resourcequotas": "1"})
    assert [limited.make(RESOURCE_QUOTAS, name, {"hard": {"pods": "1"}}) for name in "ab"] == [201, 403]
    limited.uses({"resourcequotas": "2", "count/resourcequotas": "2"})
    limited.cluster.run_for(1.0)
    limited.cluster.delete(RESOURCE_QUOTAS, "default/a")
    limited.uses({"resourcequotas": "1", "count/resourcequotas": "1"})


def test_new_limits_are_enforced_at_once(log: FilteringBoundLogger) -> None:
    limited = Limited(log)
    limited.quota({"count/configmaps": "1"})
    assert [limited.make(CONFIGMAPS, name) for name in "ab"] == [201, 403]
    limited.cluster.merge(RESOURCE_QUOTAS, "default/q", {"spec": {"hard": {"count/configmaps": "2", "secrets": "0"}}})
    limited.uses({"count/configmaps": "1", "secrets": "0"})
    assert [limited.make(CONFIGMAPS, name) for name in "bc"] == [201, 403]
    assert limited.make(SECRETS, "a") == 403


def test_custom_resources_are_counted_once_they_are_served(log: FilteringBoundLogger) -> None:
    limited = Limited(log)
    limited.quota({f"count/{THINGS.name}": "1", "secrets": "1"})
    limited.uses({"secrets": "0"})
    limited.cluster.create(CRDS, crd())
    limited.uses({f"count/{THINGS.name}": "0", "secrets": "0"}, within=SOON)
    assert [limited.make(THINGS, name) for name in "ab"] == [201, 403]
    limited.cluster.delete(THINGS, make_key("default", "a"))
    limited.uses({f"count/{THINGS.name}": "0", "secrets": "0"})


def test_unlistable_resource_delays_only_its_own_usage(log: FilteringBoundLogger) -> None:
    broken = Fault(kind=FaultKind.COMMAND_ANSWERED, status=403, resource="secrets", process="manager", until=60.0)
    limited = Limited(log, broken)
    limited.quota({"secrets": "1", "count/configmaps": "1"})
    assert limited.status == {"hard": {"secrets": "1", "count/configmaps": "1"}, "used": {"count/configmaps": "0"}}
    assert limited.make(SECRETS, "a") == 403  # rejected, because the usage is unknown
    assert limited.make(CONFIGMAPS, "a") == 201
    limited.uses({"secrets": "0", "count/configmaps": "1"}, within=120.0)


def test_late_watch_of_pods_releases_no_usage(log: FilteringBoundLogger) -> None:
    late = Fault(kind=FaultKind.WATCH_STALLED, start=5.0, until=25.0, resource="pods")
    limited = Limited(log, late, flags=("--resource-quota-sync-period=2s",))
    limited.quota({"pods": "2"})
    limited.cluster.run_for(4.0)
    assert [limited.pod(name) for name in "abc"] == [201, 201, 403]
    for _ in range(10):
        limited.cluster.run_for(1.5)
        assert limited.pod("x") == 403
    limited.uses({"pods": "2"})


def test_usage_of_short_lived_objects_is_released(log: FilteringBoundLogger) -> None:
    """The quota is counted before the table shows the usage that admission has added."""
    limited = Limited(log, flags=("--resource-quota-sync-period=0",))
    limited.quota({"count/configmaps": "1"})
    assert limited.make(CONFIGMAPS, "a") == 201
    limited.cluster.delete(CONFIGMAPS, make_key("default", "a"))
    limited.uses({"count/configmaps": "0"}, within=15.0)


def test_usage_of_objects_unseen_by_the_watch_is_released(log: FilteringBoundLogger) -> None:
    away = Fault(kind=FaultKind.WATCH_STALLED, start=5.0, until=15.0, resource="configmaps")
    limited = Limited(log, away, flags=("--resource-quota-sync-period=0",))
    limited.quota({"count/configmaps": "1"})
    limited.cluster.run_for(4.0)
    assert limited.make(CONFIGMAPS, "a") == 201
    limited.cluster.delete(CONFIGMAPS, make_key("default", "a"))
    limited.uses({"count/configmaps": "0"}, within=60.0)


def test_restarted_manager_writes_only_changes(log: FilteringBoundLogger) -> None:
    limited = Limited(log)
    limited.quota({"pods": "2"})
    limited.pod("a")
    limited.cluster.crash("manager")
    limited.cluster.delete(PODS, make_key("default", "a"))
    limited.cluster.run_for(1.0)
    assert limited.status["used"] == {"pods": "1"}
    limited.cluster.start_again("manager")
    limited.uses({"pods": "0"}, within=10.0)
    limited.cluster.crash("manager")
    limited.cluster.start_again("manager")
    assert limited.writes(60.0) == 0


def test_queue_names_are_upstreams() -> None:
    assert [queue.name for queue in SPEC.queues][:2] == ["resourcequota_primary", "resourcequota_priority"]
