"""What people wish of a simulated cluster, drawn from a seed; and what state it comes to.

A wish waits until it can be fulfilled (a pod to delete must be there), and those that follow wait for it: so the same
wishes are fulfilled in the same order whatever goes wrong.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from actors.simulation import SimulatedCluster
from protocols.objects import Object, controller_of, labels_of, metadata, name_of, uid_of
from protocols.resources import DEPLOYMENTS, PODS, REPLICASETS, REPLICATION_CONTROLLERS, Resource

NAMESPACE = "default"
NOTHING: Mapping[str, Any] = MappingProxyType({})
RETRY = 1.0  # seconds until a wish that could not be fulfilled is tried again


class Wish(NamedTuple):
    """at: virtual second from which on it is wished. act: answers whether it could be done."""

    at: float
    text: str
    act: Callable[[SimulatedCluster], bool]


def workload(
    resource: Resource, name: str, replicas: int, image: str, *, pod: Mapping[str, Any] = NOTHING, **spec: Any
) -> Object:
    """A Deployment, ReplicaSet or ReplicationController. pod: more fields of its pods' spec."""
    labels = {"app": name}
    selector: Object = labels if resource == REPLICATION_CONTROLLERS else {"matchLabels": labels}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}], **pod}}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }


KINDS = (DEPLOYMENTS, REPLICASETS, REPLICATION_CONTROLLERS)
NAMES = {DEPLOYMENTS: "web", REPLICASETS: "set", REPLICATION_CONTROLLERS: "old"}
CHANGES = ("image", "scale", "scale", "kill", "anew", "orphan")
HISTORIES = (0, 1, None)  # how many old ReplicaSets a Deployment keeps; None is the default


def draw_wishes(
    seed: int,
    *,
    seconds: float,
    kinds: Sequence[Resource] = KINDS,
    changes: Sequence[str] = CHANGES,
    pod: Mapping[str, Any] = NOTHING,
) -> tuple[Wish, ...]:
    """One workload of each kind, then three to six changes to them within so many seconds. pod: see `workload`."""
    chance = random.Random(f"wishes {seed}")
    kept = random.Random(f"revisions kept {seed}").choice(HISTORIES)
    wishes = [_first(chance, 1.0 + 0.5 * i, kind, pod, kept) for i, kind in enumerate(kinds)]
    times = sorted(round(chance.uniform(3.0, seconds), 2) for _ in range(chance.randint(3, 6)))
    wishes += [_draw_change(chance, at, chance.choice(kinds), chance.choice(changes), kept) for at in times]
    return tuple(wishes)


def _first(chance: random.Random, at: float, kind: Resource, pod: Mapping[str, Any], kept: int | None) -> Wish:
    """kept: see _history."""
    more: Object = {}
    if kind == DEPLOYMENTS:
        surge = {"maxSurge": chance.randint(0, 2), "maxUnavailable": 1}
        strategy = chance.choice(({"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": surge}, None))
        more = {} if strategy is None else {"strategy": strategy}
    more |= _history(kind, kept)
    return _create(at, kind, workload(kind, NAMES[kind], chance.randint(1, 5), "v1", pod=pod, **more))


def _history(kind: Resource, kept: int | None) -> Object:
    """How many old ReplicaSets a Deployment keeps. kept: None is the default."""
    return {"revisionHistoryLimit": kept} if kind == DEPLOYMENTS and kept is not None else {}


def _draw_change(chance: random.Random, at: float, kind: Resource, change: str, kept: int | None) -> Wish:
    name = NAMES[kind]
    match change:
        case "image" if kind == DEPLOYMENTS:
            image = f"v{chance.randint(1, 4)}"
            template = {"spec": {"containers": [{"name": "c", "image": image}]}}
            return _merge(at, kind, name, {"spec": {"template": template}}, f"image {image}")
        case "kill":
            return _kill(at, name, chance.randrange(6))
        case "anew":
            return _anew(at, kind, workload(kind, name, chance.randint(1, 4), "v1", **_history(kind, kept)))
        case "orphan" if kind != DEPLOYMENTS:
            return _orphan(at, name)
    replicas = chance.randint(0, 6)
    return _merge(at, kind, name, {"spec": {"replicas": replicas}}, f"scale to {replicas}")


def _create(at: float, resource: Resource, obj: Object) -> Wish:
    def act(cluster: SimulatedCluster) -> bool:
        cluster.create(resource, obj)
        return True

    return Wish(at, f"create {resource.kind} {name_of(obj)} with {obj['spec']['replicas']}", act)


def _merge(at: float, resource: Resource, name: str, changes: Object, text: str) -> Wish:
    def act(cluster: SimulatedCluster) -> bool:
        cluster.merge(resource, f"{NAMESPACE}/{name}", changes)
        return True

    return Wish(at, f"{resource.kind} {name}: {text}", act)


def _kill(at: float, app: str, index: int) -> Wish:
    """Somebody deletes a pod by hand."""

    def act(cluster: SimulatedCluster) -> bool:
        pods = [pod for pod in pods_of(cluster, app) if not metadata(pod).get("deletionTimestamp")]
        wanted = sum(
            obj["spec"].get("replicas", 1)
            for resource in KINDS
            for obj in cluster.list(resource, NAMESPACE)
            if name_of(obj) == app
        )
        if not pods:
            return bool(wanted == 0)
        cluster.delete(PODS, f"{NAMESPACE}/{name_of(pods[index % len(pods)])}")
        return True

    return Wish(at, f"delete a pod of {app}", act)


def _anew(at: float, resource: Resource, other: Object) -> Wish:
    """Another object of the same name takes the place of the first."""
    name = name_of(other)

    def act(cluster: SimulatedCluster) -> bool:
        cluster.delete(resource, f"{NAMESPACE}/{name}")
        cluster.create(resource, other)
        return True

    return Wish(at, f"{resource.kind} {name} is deleted, and another made with {other['spec']['replicas']}", act)


def _orphan(at: float, app: str) -> Wish:
    """A pod that nobody made, and that an owner's selector matches."""
    pod = {
        "metadata": {"generateName": f"{app}-stray-", "namespace": NAMESPACE, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "v1"}]},
    }

    def act(cluster: SimulatedCluster) -> bool:
        cluster.create(PODS, pod)
        return True

    return Wish(at, f"a stray pod that looks like one of {app}", act)


def enter_wishes(cluster: SimulatedCluster, wishes: Iterable[Wish]) -> list[Wish]:
    """Have them fulfilled in their order; answers a list that empties as they are."""
    waiting = list(wishes)

    def go_on() -> None:
        now = cluster.clock.monotonic()
        while waiting and waiting[0].at <= now and waiting[0].act(cluster):
            cluster.note("", f"WISH {waiting.pop(0).text}")
        if waiting:
            cluster.clock.call_after(max(waiting[0].at - now, 0.0) or RETRY, go_on)

    go_on()
    return waiting


def pods_of(cluster: SimulatedCluster, app: str) -> list[Object]:
    pods = [pod for pod in cluster.list(PODS, NAMESPACE) if labels_of(pod).get("app") == app]
    return sorted(pods, key=name_of)


# What it comes to.


def end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    """All that a wish determines; names, uids, times and empty ReplicaSets are left out."""
    state: dict[str, Any] = {}
    owners: dict[str, str] = {}
    for resource in KINDS:
        for obj in cluster.list(resource, NAMESPACE):
            owner = controller_of(obj)
            image = obj["spec"]["template"]["spec"]["containers"][0]["image"]
            called = f"{resource.kind} {name_of(obj) if owner is None else f'of {owner.name}'} {image}"
            owners[uid_of(obj)] = called
            if resource == REPLICASETS and obj["spec"]["replicas"] == 0:
                continue
            status = obj.get("status") or {}
            counts = {name: value for name, value in sorted(status.items()) if isinstance(value, int)}
            conditions = sorted((c["type"], c["status"], c.get("reason")) for c in status.get("conditions") or ())
            counts.pop("observedGeneration", None)
            counts.pop("collisionCount", None)
            state[called] = {"replicas": obj["spec"]["replicas"], "status": counts, "conditions": conditions}
    pods: Counter[str] = Counter()
    for pod in cluster.list(PODS, NAMESPACE):
        owner = controller_of(pod)
        whose = owners.get(owner.uid, "somebody who is gone") if owner is not None else "nobody"
        pods[f"{whose}: {pod.get('status', {}).get('phase')}"] += 1
    return {**state, "pods": dict(sorted(pods.items()))}


def unsettled(cluster: SimulatedCluster) -> list[str]:
    """What is not yet as it is wished: nothing, once the system has settled."""
    found = []
    pods = cluster.list(PODS, NAMESPACE)
    for resource in KINDS:
        for obj in cluster.list(resource, NAMESPACE):
            spec, status = obj["spec"], obj.get("status") or {}
            wanted, what = spec.get("replicas", 1), f"{resource.kind} {name_of(obj)}"
            if status.get("observedGeneration", 0) != metadata(obj).get("generation"):
                found.append(f"{what}: generation {metadata(obj).get('generation')} is not observed")
            counted = ["replicas", "readyReplicas", "availableReplicas"]
            counted += ["updatedReplicas"] if resource == DEPLOYMENTS else []
            found += [
                f"{what}: {field} is {status.get(field, 0)}, wanted {wanted}"
                for field in counted
                if status.get(field, 0) != wanted
            ]
            if status.get("terminatingReplicas"):
                found.append(f"{what}: terminatingReplicas is {status['terminatingReplicas']}")
            if resource != DEPLOYMENTS:
                have = [pod for pod in pods if _owner_uid(pod) == uid_of(obj)]
                if len(have) != wanted or any(metadata(pod).get("deletionTimestamp") for pod in have):
                    found.append(f"{what}: {len(have)} pods, wanted {wanted}")
    uids = {uid_of(obj) for r in (REPLICASETS, REPLICATION_CONTROLLERS) for obj in cluster.list(r, NAMESPACE)}
    for pod in pods:
        if _owner_uid(pod) not in uids:
            found.append(f"pod {name_of(pod)} belongs to nobody who is there")
        elif (pod.get("status") or {}).get("phase") != "Running":
            found.append(f"pod {name_of(pod)} is not running")
    return found


def _owner_uid(obj: Object) -> str:
    owner = controller_of(obj)
    return "" if owner is None else owner.uid
