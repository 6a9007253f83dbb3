"""Namespaces and owners are deleted: the real kube-controller-manager and ours, on one kube-apiserver.

After each step what is left, conditions of the namespace and events must be the same. How long it takes they do not:
upstream leaves every namespace alone for 5 s.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.real_server import RealServer, binaries, real_manager, real_server
from tests.e2e.running import CONTROLLERS, managing, until
from tests.e2e.test_namespace import CONTAINERS, DEPLOYMENT, SERVICE, config, is_gone

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

Object = dict[str, Any]
WANTED = (*CONTROLLERS, "namespace-controller", "garbage-collector-controller")
POLICIES = ("background", "foreground", "orphan")


def namespace_of(kubectl: Kubectl) -> Object:
    """Without times, uids and versions."""
    found = kubectl.api.get(f"/api/v1/namespaces/{kubectl.namespace}")
    told = [
        (one["type"], one["status"], one["reason"], one["message"], sorted(one))
        for one in found["status"].get("conditions", ())
    ]
    return {"spec": found["spec"], "phase": found["status"]["phase"], "conditions": told}


def left(kubectl: Kubectl) -> list[tuple[str, str, Any, Any]]:
    """Of each object its kind, how its name begins, how many owners it has, and its finalizers."""
    found = []
    for resource in ("apps/v1/deployments", "apps/v1/replicasets", "pods", "configmaps", "services"):
        for obj in kubectl.items(resource):
            meta = obj["metadata"]
            owners = [(one["kind"], one.get("blockOwnerDeletion")) for one in meta.get("ownerReferences", ())]
            found.append((resource, meta["name"].split("-")[0], owners, meta.get("finalizers")))
    return sorted(found, key=str)


def remove_namespace(site: RealServer, whose: str) -> dict[str, Any]:
    """What is to be seen of a namespace in which a pod, then a ConfigMap, and then nothing keeps it."""
    kubectl = in_namespace(site.kubeconfig, f"gone-{whose}")
    for obj in (DEPLOYMENT, SERVICE, config("free"), config("held", "example.com/hold")):
        kubectl.apply(obj)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "slow", "finalizers": ["example.com/pod"]}}
    kubectl.apply({**pod, "spec": {"containers": CONTAINERS}})
    until(lambda: len(kubectl.items("pods")) == 4, "four pods")
    seen: dict[str, Any] = {}
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")
    until(lambda: len(kubectl.items("pods")) == 1 and namespace_of(kubectl)["conditions"], "one pod is left")
    seen["a pod is left"] = (namespace_of(kubectl), left(kubectl))
    kubectl("patch", "pod", "slow", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    until(lambda: namespace_of(kubectl)["conditions"][3][1] == "True", "something remains")
    seen["a ConfigMap is left"] = (namespace_of(kubectl), left(kubectl))
    began = time.monotonic()
    kubectl("patch", "configmap", "held", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    until(lambda: is_gone(kubectl), "it is gone")
    seen["seconds after the last finalizer"] = time.monotonic() - began
    return seen


def seconds_for_an_empty_one(site: RealServer, whose: str) -> float:
    kubectl = in_namespace(site.kubeconfig, f"empty-{whose}")
    began = time.monotonic()
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")
    until(lambda: is_gone(kubectl), "it is gone")
    return time.monotonic() - began


def cascade(site: RealServer, whose: str, policy: str) -> list[Any]:
    """What is left of a Deployment."""
    kubectl = in_namespace(site.kubeconfig, f"{policy}-{whose}")
    kubectl.apply(DEPLOYMENT)
    until(lambda: len(kubectl.items("pods")) == 3, "three pods")
    kubectl("delete", "deployment", "web", f"--cascade={policy}")
    stays = 4 if policy == "orphan" else 0
    until(lambda: len(left(kubectl)) == stays, "what was owned is gone, or an orphan")
    return left(kubectl)


def owned_across_namespaces(site: RealServer, whose: str) -> Any:
    """A ConfigMap names an owner that is in another namespace: an event says so, and it is deleted."""
    owners, dependents = (in_namespace(site.kubeconfig, f"{what}-{whose}") for what in ("owners", "dependents"))
    owners.apply(config("owner"))
    uid = owners.get("configmaps", "owner")["metadata"]["uid"]
    child = config("child")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    child["metadata"]["ownerReferences"] = [reference]
    dependents.apply(child)
    events = until(lambda: dependents.items("events"), "an event")
    until(lambda: not [one for one in dependents.items("configmaps") if one["metadata"]["name"] == "child"], "it goes")
    told = [
        (one["type"], one["reason"], one["source"], one["message"], one["involvedObject"]["name"]) for one in events
    ]
    return [tuple(str(part).replace(uid, "UID").replace(whose, "WHOSE") for part in one) for one in told]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """What is to be seen with either manager."""
    assets = binaries()
    if assets is None:
        pytest.skip("there is no kube-apiserver: KUBEBUILDER_ASSETS names the directory with it and etcd")
    wanted = f"--controllers={','.join(WANTED)}"
    found: dict[str, dict[str, Any]] = {}
    with real_server(tmp_path_factory.mktemp("deletions"), assets) as server:
        for whose in ("real", "ours"):
            if whose == "real":
                manager: Any = real_manager(server, wanted)
            else:
                flags = (f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", wanted)
                manager = managing(server.directory / "kcm.log", *flags)
            with manager:
                seen = remove_namespace(server, whose)
                seen["seconds for an empty one"] = seconds_for_an_empty_one(server, whose)
                for policy in POLICIES:
                    seen[policy] = cascade(server, whose, policy)
                seen["an owner elsewhere"] = owned_across_namespaces(server, whose)
            found[whose] = seen
        print({whose: {what: one for what, one in seen.items() if "seconds" in what} for whose, seen in found.items()})
        yield found


@pytest.mark.parametrize("step", ["a pod is left", "a ConfigMap is left", *POLICIES, "an owner elsewhere"])
def test_nothing_tells_our_work_from_the_real_managers(both: dict[str, dict[str, Any]], step: str) -> None:
    assert both["ours"][step] == both["real"][step]


@pytest.mark.parametrize("what", ["seconds after the last finalizer", "seconds for an empty one"])
def test_ours_takes_no_longer(both: dict[str, dict[str, Any]], what: str) -> None:
    assert both["ours"][what] < both["real"][what]
