"""ResourceClaims and PodGroups with the real kube-controller-manager and with ours, on one kube-apiserver: the same
claims, statuses and events after each stage. The test plays the scheduler and the kubelet.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import ending, run_kcm, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server
from tests.e2e.snapshots import Snapshot, differences, normalised

T = TypeVar("T")

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

GATES = "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true"
NAMES = "resourceclaim-controller"
WITH_GROUPS = f"{NAMES},podgroup-protection-controller"
CLAIMS, TEMPLATES = "resource.k8s.io/v1/resourceclaims", "resource.k8s.io/v1/resourceclaimtemplates"
GROUPS = "scheduling.k8s.io/v1alpha2/podgroups"
KINDS = {"pods": "Pod", CLAIMS: "ResourceClaim", TEMPLATES: "ResourceClaimTemplate", GROUPS: "PodGroup"}
MERGE = "application/merge-patch+json"
DRIVER = "gpu.example.com"
SPEC: Object = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
DEVICE = {"request": "gpu", "driver": DRIVER, "pool": "pool", "device": "device-0"}
PROTECTION = "resource.kubernetes.io/delete-protection"
LONG = "a-pod-with-a-long-name-that-is-truncated-to-fit"


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    directory = tmp_path_factory.mktemp("devices")
    flags = (GATES, "--runtime-config=scheduling.k8s.io/v1alpha2=true")
    with real_server(directory, assets_or_skip(), *flags) as server:
        yield server


def entry(name: str = "gpu", template: str = "gpu") -> Object:
    return {"name": name, "resourceClaimTemplateName": template}


class Scene:
    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    def create(self, resource: str, name: str, spec: Object, **meta: Any) -> Object:
        version = resource.rpartition("/")[0] or "v1"
        obj = {
            "apiVersion": version,
            "kind": KINDS[resource],
            "metadata": {"name": name, **meta},
            "spec": spec,
        }
        return self.kubectl.api.request("POST", self.kubectl.path(resource), obj)

    def pod(self, name: str, *entries: Object, **spec: Any) -> Object:
        device = {"example.com/gpu": "1"}
        containers = [{"name": "c", "image": "nginx", "resources": {"limits": device, "requests": device}}]
        return self.create("pods", name, {"containers": containers, "resourceClaims": list(entries), **spec})

    def patch(self, resource: str, name: str, changes: Object, *, part: str = "") -> Object:
        return self.kubectl.api.request("PATCH", self.kubectl.path(resource, name) + part, changes, type=MERGE)

    def delete(self, resource: str, name: str) -> None:
        self.kubectl.api.request("DELETE", self.kubectl.path(resource, name), {"gracePeriodSeconds": 0})

    def bind(self, name: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": "node"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.kubectl.api.request("POST", self.kubectl.path("pods", name) + "/binding", binding)

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        self.patch("pods", name, {"status": {"phase": phase}}, part="/status")

    def allocate(self, claim: str, *consumers: Object) -> None:
        self.patch(CLAIMS, claim, {"metadata": {"finalizers": [PROTECTION]}})
        status: Object = {"allocation": {"devices": {"results": [DEVICE]}}}
        if consumers:
            status["reservedFor"] = list(consumers)
        self.patch(CLAIMS, claim, {"status": status}, part="/status")

    def consumer(self, pod: str) -> Object:
        return {"resource": "pods", "name": pod, "uid": self.kubectl.get("pods", pod)["metadata"]["uid"]}

    def generated(self, user: str, resource: str = "pods") -> dict[str, str]:
        """Return the names in status.resourceClaimStatuses by entry."""
        status = self.kubectl.get(resource, user).get("status") or {}
        return {each["name"]: each["resourceClaimName"] for each in status.get("resourceClaimStatuses") or ()}

    def claim(self, name: str) -> Object | None:
        return next((claim for claim in self.kubectl.items(CLAIMS) if claim["metadata"]["name"] == name), None)

    def consumers(self, claim: str) -> list[str]:
        found = self.claim(claim)
        assert found is not None
        return [each["name"] for each in (found.get("status") or {}).get("reservedFor") or ()]

    def events(self) -> list[str]:
        return sorted(
            {
                f"{event['involvedObject']['kind']} {event['involvedObject']['name']} {event['type']} "
                f"{event['reason']} {event['message']}"
                for event in self.kubectl.items("events")
                if event["source"].get("component") == "resource_claim"
            }
        )

    def until(self, condition: Callable[[], object], what: str) -> None:
        until(condition, what, why=lambda: json.dumps(self.kubectl.items(CLAIMS), indent=1) + str(self.events()))


def generated(scene: Scene) -> None:
    meta = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    scene.create(TEMPLATES, "gpu", {"metadata": meta, "spec": SPEC})
    scene.create(CLAIMS, "shared", SPEC)
    scene.create(CLAIMS, "solo", SPEC)
    scene.pod("web", entry())
    scene.pod("pair", entry("a"), entry("b"), {"name": "solo", "resourceClaimName": "solo"})
    scene.pod("late", entry(template="late"))
    scene.pod("named", {"name": "shared", "resourceClaimName": "shared"})
    scene.pod(LONG, entry("an-entry-with-a-long-name"))
    scene.until(lambda: len(scene.generated("pair")) == 2, "claims of pair")
    scene.until(lambda: scene.generated("web") and scene.generated(LONG), "claims of web and of the long name")
    scene.until(scene.events, "an event about the missing template")


def created_late(scene: Scene) -> None:
    scene.create(TEMPLATES, "late", {"spec": SPEC})
    scene.until(lambda: scene.generated("late"), "the claim of late")


def reserved(scene: Scene) -> None:
    """Bind pods without a scheduler: the controller reserves their allocated claims."""
    web = scene.generated("web")["gpu"]
    scene.allocate(web)
    scene.allocate("shared", {"apiGroup": "example.com", "resource": "jobs", "name": "job", "uid": "job"})
    for name in ("web", "named"):
        scene.bind(name)
    scene.until(lambda: scene.consumers(web) == ["web"], "web's claim is reserved")
    scene.until(lambda: scene.consumers("shared") == ["job", "named"], "shared is reserved")


def finished(scene: Scene) -> None:
    web = scene.generated("web")["gpu"]
    scene.finish("web")
    scene.until(lambda: scene.claim(web) is None, "web's claim is deleted")
    scene.delete("pods", "named")
    scene.until(lambda: scene.consumers("shared") == ["job"], "named's reservation is removed")


def deallocated(scene: Scene) -> None:
    # A pod without a node would be deleted in two steps, and its claims with it if the manager sees the first one.
    scene.bind("pair")
    scene.allocate("solo", scene.consumer("pair"))
    scene.delete("pods", "pair")
    scene.until(
        lambda: not (scene.claim("solo") or {})["metadata"].get("finalizers"), "solo is neither allocated nor protected"
    )


def claims_deleted(scene: Scene) -> None:
    """Delete an allocated claim without consumers."""
    scene.create(CLAIMS, "doomed", SPEC)
    scene.allocate("doomed")
    scene.delete(CLAIMS, "doomed")
    scene.until(lambda: scene.claim("doomed") is None, "doomed is deleted")


def extended(scene: Scene) -> None:
    pod = scene.kubectl.get("pods", "late")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "late", "uid": pod["metadata"]["uid"], "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    scene.create(CLAIMS, "late-extended", SPEC, ownerReferences=[owner], annotations=annotations)
    scene.allocate("late-extended", scene.consumer("late"))
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "gpu"}
    status = {"resourceClaimName": "late-extended", "requestMappings": [mapping]}
    scene.patch("pods", "late", {"status": {"extendedResourceClaimStatus": status}}, part="/status")
    scene.finish("late", "Failed")
    scene.until(lambda: scene.claim("late-extended") is None, "the claim for extended resources is deleted")


STAGES = (generated, created_late, reserved, finished, deallocated, claims_deleted, extended)


def group_generated(scene: Scene) -> None:
    scene.create(TEMPLATES, "gpu", {"spec": SPEC})
    group = {"schedulingGroup": {"podGroupName": "team"}}
    scene.pod("early", entry(), **group)
    scene.create(GROUPS, "team", {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry(), entry("nic", "nic")]})
    scene.until(scene.events, "an event about the missing template")
    scene.create(TEMPLATES, "nic", {"spec": SPEC})
    scene.until(lambda: len(scene.generated("team", GROUPS)) == 2, "claims of team")
    # Not before: see test_names_of_claims_that_are_known_at_different_times.
    scene.pod("member", entry(), entry("own"), **group)
    scene.until(lambda: len(scene.generated("member")) == 2 and scene.generated("early"), "claims of the members")


def group_reserved(scene: Scene) -> None:
    claim = scene.generated("team", GROUPS)["gpu"]
    assert {scene.generated(name)["gpu"] for name in ("early", "member")} == {claim}
    scene.allocate(claim)
    scene.bind("member")
    scene.until(lambda: scene.consumers(claim) == ["team"], "the claim is reserved for the group")


def group_deleted(scene: Scene) -> None:
    """The group, which its pods protect, is deleted after them; its claim is then deallocated."""
    claim = scene.generated("team", GROUPS)["gpu"]
    scene.delete(GROUPS, "team")
    scene.finish("member")
    scene.until(lambda: scene.kubectl.get(GROUPS, "team")["metadata"].get("finalizers"), "team is protected")
    scene.delete("pods", "early")
    scene.until(lambda: not scene.kubectl.items(GROUPS), "team is deleted")
    scene.until(lambda: not scene.consumers(claim), "the reservation for the group is removed")
    scene.until(lambda: not (scene.claim(claim) or {})["metadata"].get("finalizers"), "the claim is not protected")


GROUP_STAGES = (group_generated, group_reserved, group_deleted)


def found(scene: Scene) -> Snapshot:
    kubectl = scene.kubectl
    objects: Snapshot = {"events": [_plain(text, kubectl.namespace) for text in scene.events()]}
    for resource in (CLAIMS, "pods", *((GROUPS,) if scene.kubectl.namespace.startswith("groups") else ())):
        items = kubectl.items(resource)
        for item in items:
            meta = item["metadata"]
            if resource == "pods":
                if item["status"]["phase"] in ("Succeeded", "Failed"):
                    continue  # the real manager may remove and add names repeatedly, as below
                item["status"] = {"resourceClaimStatuses": item["status"].get("resourceClaimStatuses")}
            if "generateName" in meta:
                item = json.loads(json.dumps(item).replace(meta["name"], f"{meta['generateName']}*"))
            objects.setdefault(resource, []).append(_plain(item, kubectl.namespace))
        objects.setdefault(resource, []).sort()
    return objects


def _plain(value: Any, namespace: str) -> str:
    """Return an object as text, without its version and the random parts of names, and with sorted names of claims."""
    if isinstance(value, dict):
        value["metadata"].pop("resourceVersion")
        statuses = (value.get("status") or {}).get("resourceClaimStatuses") or []
        statuses.sort(key=lambda status: status["name"])
        for status in statuses:
            status["resourceClaimName"] = status["resourceClaimName"][:-5]
    return json.dumps(normalised(value, namespace, {}), indent=1, sort_keys=True)


def after_each_stage(kubectl: Kubectl, stages: Sequence[Callable[[Scene], None]]) -> list[Snapshot]:
    scene, snapshots = Scene(kubectl), []
    for stage in stages:
        stage(scene)
        snapshots.append(found(scene))
    return snapshots


@pytest.mark.parametrize(
    ("run", "stages", "controllers", "flags"),
    [("claims", STAGES, NAMES, ()), ("groups", GROUP_STAGES, WITH_GROUPS, (GATES,))],
)
def test_the_same_comes_of_what_users_do(
    gated: RealServer, run: str, stages: Any, controllers: str, flags: tuple[str, ...]
) -> None:
    with real_manager(gated, f"--controllers={controllers}", *flags):
        theirs = after_each_stage(in_namespace(gated.kubeconfig, f"{run}-a"), stages)
    ours_flags = (f"--kubeconfig={gated.kubeconfig}", "--leader-elect=false")
    manager = run_kcm(gated.directory / f"{run}.log", *ours_flags, f"--controllers={controllers}", *flags)
    with ending(manager.program):
        ours = after_each_stage(in_namespace(gated.kubeconfig, f"{run}-b"), stages)
    for stage, real_snapshot, our_snapshot in zip(stages, theirs, ours, strict=True):
        assert not differences(real_snapshot, our_snapshot), (
            f"{stage.__name__}\n{differences(real_snapshot, our_snapshot)}"
        )


# Differences.


def names_known_one_by_one(scene: Scene) -> list[list[str]]:
    """Create a pod with a claim of its own, and one of its PodGroup that is generated later.

    Returns the entries whose names the pod's status has, ten times in five seconds.
    """
    scene.create(TEMPLATES, "gpu", {"spec": SPEC})
    scene.create(GROUPS, "team", {"schedulingPolicy": {"basic": {}}, "resourceClaims": [entry("nic", "nic")]})
    scene.pod("member", entry("nic", "nic"), entry("own"), schedulingGroup={"podGroupName": "team"})
    scene.until(lambda: scene.generated("member"), "the pod's own claim")
    scene.create(TEMPLATES, "nic", {"spec": SPEC})
    scene.until(lambda: "nic" in scene.generated("member"), "the claim of the group")
    return seen_repeatedly(lambda: sorted(scene.generated("member")))


def generated_claim_deleted(scene: Scene) -> list[bool]:
    """Delete a generated claim of a pod. Returns whether the claim in its status exists, ten times in five seconds."""
    scene.create(TEMPLATES, "gpu", {"spec": SPEC})
    scene.pod("web", entry())
    scene.until(lambda: scene.generated("web"), "the claim of the pod")
    scene.delete(CLAIMS, scene.generated("web")["gpu"])
    return seen_repeatedly(lambda: scene.claim(scene.generated("web").get("gpu", "")) is not None)


def seen_repeatedly(read: Callable[[], T]) -> list[T]:
    seen = []
    for _ in range(10):
        time.sleep(0.5)
        seen.append(read())
    return seen


def test_names_of_claims_that_are_created_at_different_times_stay_in_the_status(gated: RealServer) -> None:
    """Both stay in the status. The real manager applies one and thereby removes the other, without an end."""
    with real_manager(gated, f"--controllers={NAMES}", GATES):
        theirs = names_known_one_by_one(Scene(in_namespace(gated.kubeconfig, "names-a")))
    flags = (f"--kubeconfig={gated.kubeconfig}", "--leader-elect=false", f"--controllers={NAMES}", GATES)
    with ending(run_kcm(gated.directory / "names.log", *flags).program):
        ours = names_known_one_by_one(Scene(in_namespace(gated.kubeconfig, "names-b")))
    assert ["nic", "own"] not in theirs
    assert ours == [["nic", "own"]] * 10


def test_deleted_claim_is_generated_again(gated: RealServer) -> None:
    """The real manager remembers claims that it generated for an hour, and does not generate them again."""
    with real_manager(gated, f"--controllers={NAMES}"):
        theirs = generated_claim_deleted(Scene(in_namespace(gated.kubeconfig, "deleted-a")))
    flags = (f"--kubeconfig={gated.kubeconfig}", "--leader-elect=false", f"--controllers={NAMES}")
    with ending(run_kcm(gated.directory / "deleted.log", *flags).program):
        ours = generated_claim_deleted(Scene(in_namespace(gated.kubeconfig, "deleted-b")))
    assert not any(theirs)
    assert all(ours[1:])
