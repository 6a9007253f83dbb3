"""User names and field managers of kcm and kube-controller-manager, on one kube-apiserver."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from tests.bench.writes import WRITES, audit_flags, audit_log
from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl, Object, name_of
from tests.e2e.programs import CONTROLLERS, OF_SERVICES, hollow_nodes, managing, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

MORE = (
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "disruption-controller",
    "resourcequota-controller",
    "garbage-collector-controller",
    "namespace-controller",
)
FLAGS = (
    f"--controllers={','.join((*CONTROLLERS, *OF_SERVICES, *MORE))}",
    "--leader-elect=true",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
)
ACCOUNTS = "--use-service-account-credentials"
RESOURCES = (
    "apps/v1/deployments",
    "apps/v1/replicasets",
    "apps/v1/statefulsets",
    "apps/v1/daemonsets",
    "apps/v1/controllerrevisions",
    "batch/v1/jobs",
    "batch/v1/cronjobs",
    "policy/v1/poddisruptionbudgets",
    "discovery.k8s.io/v1/endpointslices",
    "resourcequotas",
    "endpoints",
    "pods",
)
LABELS = {"app": "web"}
OTHERS = ("kube-apiserver", "kube-scheduler", "kubelet", "Python-urllib")  # as chance has it
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}
ENDS = {"hollow.kcm.dev/exit-code": "0"}
# client-go's form, with the program's name and the client's: version, platform and commit may differ.
AGENT = re.compile(r"([^/]+)/v[^ ]+ \(\w+/\w+\) kubernetes/([^/]+)(?:/(.+))?")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    assets = assets_or_skip()
    directory = tmp_path_factory.mktemp("named")
    with (
        real_server(directory, assets, *audit_flags(directory)) as server,
        hollow_nodes(server.kubeconfig, directory / "hollow.log"),
    ):
        yield server


def post(kubectl: Kubectl, resource: str, kind: str, name: str, spec: Object) -> None:
    version = resource.rpartition("/")[0] or "v1"
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": LABELS}, "spec": spec}
    kubectl.api.request("POST", kubectl.path(resource), body)


def use_every_controller(kubectl: Kubectl) -> None:
    """Create one object for each of the controllers, and wait until each has done its work."""
    post(kubectl, "resourcequotas", "ResourceQuota", "q", {"hard": {"pods": "50"}})
    selected = {"selector": {"matchLabels": LABELS}}
    post(kubectl, "services", "Service", "web", {"selector": LABELS, "ports": [{"port": 80}]})
    post(kubectl, "policy/v1/poddisruptionbudgets", "PodDisruptionBudget", "web", {**selected, "minAvailable": 1})
    for kind, name in (("Deployment", "web"), ("StatefulSet", "set"), ("DaemonSet", "agent")):
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": CONTAINERS}
        spec: Object = {"selector": {"matchLabels": labels}, "template": template}
        if kind != "DaemonSet":
            spec["replicas"] = 2
        post(kubectl, f"apps/v1/{kind.lower()}s", kind, name, spec)
    job = {"template": {"metadata": {"annotations": ENDS}, "spec": {**CONTAINERS, "restartPolicy": "Never"}}}
    post(kubectl, "batch/v1/jobs", "Job", "once", job)
    schedule = {"schedule": "* * * * *", "jobTemplate": {"spec": {**job, "suspend": True}}}
    post(kubectl, "batch/v1/cronjobs", "CronJob", "often", schedule)
    kubectl.until_complete("web")

    def is_done() -> bool:
        deployed = kubectl.get("apps/v1/statefulsets", "set").get("status", {}).get("readyReplicas") == 2
        agents = kubectl.get("apps/v1/daemonsets", "agent").get("status", {})
        spread = agents.get("numberReady", 0) == agents.get("desiredNumberScheduled", -1)
        jobs = {job["metadata"]["name"].partition("-")[0]: job for job in kubectl.items("batch/v1/jobs")}
        ended = "succeeded" in jobs["once"].get("status", {}) and "completionTime" in jobs["once"]["status"]
        return deployed and spread and ended and "often" in jobs

    until(is_done, "every controller has done its work", within=120.0, why=kubectl.state)


def delete_everything(kubectl: Kubectl) -> None:
    kubectl.api.request("DELETE", kubectl.path("apps/v1/deployments", "web"))
    until(lambda: not kubectl.items("apps/v1/replicasets"), "garbage is collected", why=kubectl.state)
    kubectl.api.request("DELETE", f"/api/v1/namespaces/{kubectl.namespace}")
    until(lambda: not is_there(kubectl), "the namespace is deleted", within=120.0, why=kubectl.state)


def is_there(kubectl: Kubectl) -> bool:
    names = {name_of(namespace) for namespace in kubectl.api.get("/api/v1/namespaces")["items"]}
    return kubectl.namespace in names


def field_managers(kubectl: Kubectl) -> set[str]:
    """Return resource, subresource, operation and manager of the entries in managedFields that a manager wrote."""
    return {
        f"{resource}/{entry.get('subresource', '')} {entry['operation']} {entry['manager']}"
        for resource in RESOURCES
        for item in kubectl.items(resource)
        for entry in item["metadata"]["managedFields"]
        if not entry["manager"].startswith(OTHERS)
    }


def event_sources(kubectl: Kubectl) -> set[str]:
    return {
        f"{event['involvedObject']['kind']} {event['reason']} {event['source']} {event.get('reportingComponent')}"
        for event in kubectl.items("events")
        if event["source"].get("component", "").endswith("controller")
    }


def writers(log: str) -> set[str]:
    """Return the program and the client in the user agent of each write in a namespace, by resource.

    Who deletes an object of a namespace that is being deleted is chance, and accounts are created once: left out.
    """
    found = set()
    for line in log[: log.rfind("\n") + 1].splitlines():
        event = json.loads(line)
        about = event.get("objectRef") or {}
        agent = AGENT.fullmatch(event.get("userAgent", ""))
        if event["verb"] not in WRITES or not about.get("namespace") or agent is None or agent[1].startswith(OTHERS):
            continue
        what = f"{about['resource']}/{about.get('subresource', '')}"
        if not event["verb"].startswith("delete") and what != "serviceaccounts/":
            found.add(f"{what} {agent[1]} {agent[3] or ''}")
    return found


def names_used(server: RealServer, namespace: str, manager: AbstractContextManager[object]) -> dict[str, set[str]]:
    kubectl = in_namespace(server.kubeconfig, namespace)
    before = audit_log(server.directory).stat().st_size
    with manager:
        use_every_controller(kubectl)
        names = {"managedFields": field_managers(kubectl), "events": event_sources(kubectl)}
        delete_everything(kubectl)
    with audit_log(server.directory).open() as log:
        log.seek(before)
        return {**names, "user agents": writers(log.read())}


@pytest.mark.parametrize("flags", [(), (ACCOUNTS,)], ids=["own-credentials", "service-accounts"])
def test_names_are_those_of_the_real_manager(audited: RealServer, flags: tuple[str, ...]) -> None:
    """In user agents, managedFields and sources of events."""
    which = "accounts" if flags else "own"
    theirs = names_used(audited, f"names-{which}-real", real_manager(audited, *FLAGS, *flags))
    ours = names_used(
        audited,
        f"names-{which}-ours",
        managing(audited.directory / f"{which}.log", f"--kubeconfig={audited.kubeconfig}", *FLAGS, *flags),
    )
    assert any(" kube-controller-manager " in name for name in theirs["user agents"])
    for what, names in theirs.items():
        assert (names - ours[what], ours[what] - names) == (set(), set()), what
