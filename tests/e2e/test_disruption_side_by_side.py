"""Budgets of every kind with the real kube-controller-manager and with ours, on one kube-apiserver: their status, the
events and the conditions of the pods must be equal. Counts of events depend on timing and are not compared.
"""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.budgets import allowed, budget, evict
from tests.e2e.conftest import Site, in_namespace
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.manifests import deployment, pod
from tests.e2e.programs import until
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.snapshots import Snapshot, differences, normalised

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

COUNTED = {
    "web": (1, 3, 2, 3),
    "alone": (0, 1, 0, 0),
    "none": (0, 0, 1, 0),
    "several": (1, 1, 0, 1),
    "over": (1, 1, 0, 1),
    "thing": (0, 1, 3, 4),
}
NOT_COUNTED = ("strange", "unserved")


def scene(kubectl: Kubectl) -> Snapshot:
    name = f"things.{kubectl.namespace}.example.com"
    kubectl.apply(scaled_kind(name), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}})
    until(lambda: kubectl.run("get", name).returncode == 0, "the kind is served")
    group = name.partition(".")[2]
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "thing"}, "spec": {"replicas": 4}}
    kubectl.apply(thing)
    time.sleep(12)  # our discovery looks every 10 s
    owners = {
        "strange": kubectl.get("configmaps", "owner") | {"apiVersion": "v1", "kind": "ConfigMap"},
        "thing": kubectl.get(f"{group}/v1/things", "thing"),
        "unserved": {"apiVersion": "x.example.com/v1", "kind": "None", "metadata": {"name": "x", "uid": "x"}},
    }
    kubectl.apply(
        deployment("web", 3),
        *(pod(app, metadata={"ownerReferences": [reference(owner)]}) for app, owner in owners.items()),
        *(pod(app) for app in ("alone", "several")),
    )
    kubectl.until_pods(3, "app=web")
    kubectl.until_pods(8)
    kubectl.apply(
        budget("web", minAvailable="60%"),
        budget("alone", minAvailable="28%"),
        budget("none", minAvailable=1),
        budget("several", minAvailable=0),
        budget("over", "several", minAvailable=0),
        *(budget(app, maxUnavailable=1) for app in owners),
    )
    until(
        lambda: (
            {app: allowed(kubectl, app) for app in COUNTED} == COUNTED
            and all("SyncFailed" in message_of(kubectl, app) for app in NOT_COUNTED)
        ),
        "all are counted that can be",
        why=lambda: str({app: allowed(kubectl, app) for app in COUNTED}),
    )
    kubectl("label", "pod", "several", "touched=yes")
    stale = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "m"}
    stale["lastTransitionTime"] = (datetime.now(UTC) - timedelta(minutes=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    patch = json.dumps({"status": {"conditions": [stale]}})
    kubectl("patch", "pod", "alone", "--subresource=status", f"--patch={patch}")
    until(lambda: target(kubectl, "alone").get("status") == "False", "it is no target any more", why=kubectl.state)
    (victim, *_) = kubectl.until_pods(3, "app=web")
    assert evict(kubectl, victim["metadata"]["name"]).returncode == 0
    kubectl.until_pods(3, "app=web")
    until(lambda: allowed(kubectl, "web") == COUNTED["web"], "it is counted again", why=kubectl.state)
    time.sleep(3)  # the last events
    return left(kubectl)


def scaled_kind(name: str) -> Object:
    plural, _, group = name.partition(".")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": "Thing"},
        "versions": [version],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": spec,
    }


def reference(owner: Object) -> Object:
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def message_of(kubectl: Kubectl, name: str) -> str:
    return json.dumps(kubectl.get("policy/v1/poddisruptionbudgets", name)["status"])


def target(kubectl: Kubectl, name: str) -> Object:
    conditions = kubectl.get("pods", name)["status"]["conditions"]
    found: list[Object] = [condition for condition in conditions if condition["type"] == "DisruptionTarget"]
    return found[0] if found else {}


def left(kubectl: Kubectl) -> Snapshot:
    events = {
        (event["type"], event["reason"], event["involvedObject"]["kind"], event["message"])
        for event in kubectl.items("events")
        if event["source"].get("component") == "controllermanager"
    }
    shown = [f"{kind} {reason} of a {of}: {chosen(text)}" for kind, reason, of, text in events]
    found = {
        "budgets": [
            json.dumps(
                {"name": budget["metadata"]["name"], "managed": managers(budget), **budget["status"]}, sort_keys=True
            )
            for budget in kubectl.items("policy/v1/poddisruptionbudgets")
        ],
        "events": shown,
        "target": [json.dumps(target(kubectl, "alone"), sort_keys=True)],
    }
    return {what: sorted(normalised(lines, kubectl.namespace, {})) for what, lines in found.items()}


def chosen(text: str) -> str:
    """Replace the name of the chosen budget: upstream chooses any of several budgets, kcm the first."""
    return re.sub('"[a-z]+" arbitrarily', '"<one>" arbitrarily', text)


def managers(obj: Object) -> list[str]:
    """Return operation, subresource and fields of each entry of managedFields, without lastTransitionTime.

    An eviction sets the condition as well. Whose transition time remains depends on whether both are in one second.
    """
    shown = []
    for entry in obj["metadata"]["managedFields"]:
        status = entry["fieldsV1"].get("f:status", {})
        conditions = [fields for name, fields in status.get("f:conditions", {}).items() if name != "."]
        for condition in conditions:
            condition.pop("f:lastTransitionTime", None)
        if any(conditions) or not conditions:
            shown.append(f"{entry['operation']} {entry.get('subresource', '')} {json.dumps(entry['fieldsV1'])}")
    return sorted(shown)


@pytest.fixture(scope="module")
def with_the_real_one(real: RealServer) -> Snapshot:
    with real_manager(real, "--controllers=disruption-controller"):
        return scene(in_namespace(real.kubeconfig, "budgets-real"))


def test_budgets_are_the_same_as_with_kube_controller_manager(with_the_real_one: Snapshot, on_real: Site) -> None:
    found = differences(with_the_real_one, scene(on_real.namespace("budgets-ours")))
    if found:
        pytest.fail(found, pytrace=False)
