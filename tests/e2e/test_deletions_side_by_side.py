"""Namespaces and owners are deleted: the real kube-controller-manager and ours, on one kube-apiserver.

After each step what is left, conditions of the namespace and events must be the same, and so must the owner graph that
the garbage collector shows. How long it takes they do not: upstream leaves every namespace alone for 5 s.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import CONTROLLERS, free_port, managing, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server
from tests.e2e.test_namespace import CONTAINERS, DEPLOYMENT, SERVICE, config, is_gone

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

Object = dict[str, Any]
WANTED = (*CONTROLLERS, "namespace-controller", "garbage-collector-controller")
POLICIES = ("background", "foreground", "orphan")
GRAPH = "/debug/controllers/garbage-collector-controller/graph"


def namespace_of(kubectl: Kubectl) -> Object:
    """Return the namespace without times, uids and versions."""
    found = kubectl.api.get(f"/api/v1/namespaces/{kubectl.namespace}")
    conditions = [
        (condition["type"], condition["status"], condition["reason"], condition["message"], sorted(condition))
        for condition in found["status"].get("conditions", ())
    ]
    return {"spec": found["spec"], "phase": found["status"]["phase"], "conditions": conditions}


def left(kubectl: Kubectl) -> list[tuple[str, str, Any, Any]]:
    """Return kind, beginning of the name, number of owners and finalizers of each object."""
    found = []
    for resource in ("apps/v1/deployments", "apps/v1/replicasets", "pods", "configmaps", "services"):
        for obj in kubectl.items(resource):
            meta = obj["metadata"]
            owners = [(owner["kind"], owner.get("blockOwnerDeletion")) for owner in meta.get("ownerReferences", ())]
            found.append((resource, meta["name"].split("-")[0], owners, meta.get("finalizers")))
    return sorted(found, key=str)


def remove_namespace(site: RealServer, whose: str) -> dict[str, Any]:
    """Delete a namespace that waits for a pod, then for a ConfigMap; return its states."""
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
    """Delete a Deployment; return what is left."""
    kubectl = in_namespace(site.kubeconfig, f"{policy}-{whose}")
    kubectl.apply(DEPLOYMENT)
    until(lambda: len(kubectl.items("pods")) == 3, "three pods")
    kubectl("delete", "deployment", "web", f"--cascade={policy}")
    stays = 4 if policy == "orphan" else 0
    until(lambda: len(left(kubectl)) == stays, "what was owned is gone, or an orphan")
    return left(kubectl)


def owned_across_namespaces(site: RealServer, whose: str) -> Any:
    """Create a ConfigMap with an owner in another namespace, which gets an event and is deleted."""
    owners, dependents = (in_namespace(site.kubeconfig, f"{what}-{whose}") for what in ("owners", "dependents"))
    owners.apply(config("owner"))
    uid = owners.get("configmaps", "owner")["metadata"]["uid"]
    child = config("child")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    child["metadata"]["ownerReferences"] = [reference]
    dependents.apply(child)
    events = until(lambda: dependents.items("events"), "an event")
    until(
        lambda: (
            not [
                config_map for config_map in dependents.items("configmaps") if config_map["metadata"]["name"] == "child"
            ]
        ),
        "it goes",
    )
    facts = [
        (event["type"], event["reason"], event["source"], event["message"], event["involvedObject"]["name"])
        for event in events
    ]
    return [tuple(str(part).replace(uid, "UID").replace(whose, "WHOSE") for part in event) for event in facts]


def asked(port: int, path: str) -> tuple[int, str, str]:
    """Status, content type and body of a page of a manager's."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        with urlopen(f"https://127.0.0.1:{port}{path}", context=anybody, timeout=30) as response:
            return response.status, response.headers["Content-Type"], response.read().decode()
    except HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def graph(port: int, *uids: str) -> tuple[dict[str, list[str]], list[str]]:
    """Its nodes by uid, each with the lines about it; its edges."""
    status, content_type, text = asked(port, f"{GRAPH}?{'&'.join(f'uid={uid}' for uid in uids)}")
    assert (status, content_type) == (200, "text/vnd.graphviz"), text
    before, _, after = text.partition("  // Edge definitions.\n")
    assert before.startswith("strict digraph full {\n")
    nodes = re.findall(r'^  "(.*?)" \[\n(.*?)^  \];\n', before, re.DOTALL | re.MULTILINE)
    return {uid: lines.splitlines() for uid, lines in nodes}, re.findall(r"^  (.*);$", after, re.MULTILINE)


def owner_graph(site: RealServer, whose: str, port: int) -> Any:
    """A Deployment with its pods; an owner that waits for a dependent, and one of a kind that is not served."""
    kubectl = in_namespace(site.kubeconfig, f"graph-{whose}")
    kubectl.apply(DEPLOYMENT)
    for name in ("alone", "owner"):
        kubectl.apply(config(name))
    uid_of_owner = kubectl.get("configmaps", "owner")["metadata"]["uid"]
    child, odd = config("child", "example.com/hold"), config("odd")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid_of_owner}
    child["metadata"]["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
    unknown = {"apiVersion": "odd.example.com/v1", "kind": "Odd", "name": "odd", "uid": f"odd-{whose}"}
    odd["metadata"]["ownerReferences"] = [unknown]
    for obj in (child, odd):
        kubectl.apply(obj)
    until(lambda: len(kubectl.items("pods")) == 3, "three pods")
    uid_of_deployment = kubectl.get("apps/v1/deployments", "web")["metadata"]["uid"]
    until(lambda: len(graph(port, uid_of_deployment)[0]) == 5, "it is in the graph with what it owns")
    until(lambda: len(graph(port, uid_of_owner)[0]) == 2, "the owner is in the graph")
    kubectl("delete", "configmap", "owner", "--cascade=foreground", "--wait=false")
    until(lambda: str(graph(port, uid_of_owner)).count('beingDeleted="true"') == 2, "both are being deleted")
    uids = {uid_of_deployment: "web", uid_of_owner: "owner", f"odd-{whose}": "odd's owner"}
    for resource in ("apps/v1/replicasets", "pods", "configmaps"):
        for obj in kubectl.items(resource):
            meta = obj["metadata"]
            uids[meta["uid"]] = meta["name"] if resource == "configmaps" else resource.rpartition("/")[2]
    names = {meta["name"] for meta in (pod["metadata"] for pod in kubectl.items("pods"))}

    def plain(text: str) -> str:
        for uid, name in uids.items():
            text = text.replace(uid, f"<{name}>")
        for name in names:
            text = text.replace(name, "<a pod>")
        return re.sub(r"web-[0-9a-f]+", "<a ReplicaSet>", text.replace(whose, "WHOSE"))

    seen: dict[str, Any] = {}
    for what, of in (("some", (uid_of_deployment, uid_of_owner, "nobody")), ("none", ("nobody",)), ("all", ())):
        nodes, edges = graph(port, *of)
        here = {uid for uid in nodes if uid in uids}
        seen[what] = (
            sorted(([plain(uid), *map(plain, lines)] for uid, lines in nodes.items() if uid in here)),
            sorted(plain(edge) for edge in edges if edge.split('"')[1] in here),
        )
        if of:
            assert here == set(nodes)
    seen["elsewhere"] = [asked(port, path)[0] for path in (f"{GRAPH}/", f"{GRAPH}s", GRAPH.rpartition("/")[0])]
    kubectl("patch", "configmap", "child", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    return seen


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """Results with both managers."""
    assets = assets_or_skip()
    wanted = f"--controllers={','.join(WANTED)}"
    found: dict[str, dict[str, Any]] = {}
    with real_server(tmp_path_factory.mktemp("deletions"), assets) as server:
        for whose in ("real", "ours"):
            port = free_port()
            shows = (f"--secure-port={port}", "--authorization-always-allow-paths=/healthz,/debug/controllers/*")
            if whose == "real":
                manager: Any = real_manager(server, wanted, *shows)
            else:
                flags = (f"--kubeconfig={server.kubeconfig}", "--leader-elect=false", wanted, *shows)
                manager = managing(server.directory / "kcm.log", *flags)
            with manager:
                seen = remove_namespace(server, whose)
                seen["seconds for an empty one"] = seconds_for_an_empty_one(server, whose)
                for policy in POLICIES:
                    seen[policy] = cascade(server, whose, policy)
                seen["an owner elsewhere"] = owned_across_namespaces(server, whose)
                seen["the owner graph"] = owner_graph(server, whose, port)
            found[whose] = seen
        print(
            {
                whose: {what: seconds for what, seconds in seen.items() if "seconds" in what}
                for whose, seen in found.items()
            }
        )
        yield found


@pytest.mark.parametrize(
    "step", ["a pod is left", "a ConfigMap is left", *POLICIES, "an owner elsewhere", "the owner graph"]
)
def test_results_are_the_same_as_with_kube_controller_manager(both: dict[str, dict[str, Any]], step: str) -> None:
    assert both["ours"][step] == both["real"][step]


@pytest.mark.parametrize("what", ["seconds after the last finalizer", "seconds for an empty one"])
def test_ours_takes_no_longer(both: dict[str, dict[str, Any]], what: str) -> None:
    assert both["ours"][what] < both["real"][what]
