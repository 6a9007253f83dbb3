"""Expected state of workloads: as many pods as the spec requests, and a status that counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.nodes.pod_garbage_collector import CONDITION_REASON
from kcm.actors.controllers.shared.pod_disruption import DISRUPTION_TARGET
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.ownership import replicas_of
from kcm.actors.simulation.trials.scenario import NAMESPACE
from kcm.actors.simulation.trials.silence import no_node_is_silent
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object, controller_of, labels_of, metadata, name_of, uid_of
from kcm.protocols.pods import PodFacts, is_active, is_terminal, pod_facts
from kcm.protocols.resources import NODES, PODS, Resource
from kcm.protocols.times import parse_time


def unsettled_replicas(cluster: SimulatedCluster, resource: Resource) -> Iterable[str]:
    """Yield a text for each deviation of ReplicaSets or ReplicationControllers from their desired state.

    Their active pods must match spec.replicas, and their status must count these pods.
    """
    owned: dict[str, list[tuple[Object, PodFacts]]] = {}
    owners = cluster.shown(resource, NAMESPACE)
    uids = set(map(uid_of, owners))
    for pod, facts in cluster.shown_pods(NAMESPACE):
        if is_terminal(facts):
            continue
        owner = controller_of(pod)
        if owner is not None:
            owned.setdefault(owner.uid, []).append((pod, facts))
            if owner.kind == resource.kind and not facts.deleting and owner.uid not in uids:
                yield f"pod {name_of(pod)}: its owner {owner.kind} {owner.name} does not exist"
        elif not facts.deleting and labels_of(pod).get("app", "") in map(name_of, owners):
            yield f"pod {name_of(pod)} is not adopted"
    for obj in owners:
        pods = owned.get(uid_of(obj), ())
        active = [(pod, facts) for pod, facts in pods if is_active(facts)]
        counts = {
            "replicas": len(active),
            "readyReplicas": sum(1 for _, facts in active if facts.ready),
            "availableReplicas": sum(1 for pod, _ in active if is_available(cluster, obj, pod)),
        }
        if "terminatingReplicas" in (obj.get("status") or {}):
            counts["terminatingReplicas"] = len(pods) - len(active)
        yield from status_differences(resource, obj, counts)
        if len(active) != replicas_of(obj):
            yield f"{resource.kind} {name_of(obj)}: {len(active)} pods, spec.replicas is {replicas_of(obj)}"


def is_available(cluster: SimulatedCluster, owner: Object, pod: Object) -> bool:
    """Report whether the pod is available: it has been ready for the owner's minReadySeconds."""
    ready = find_condition((pod.get("status") or {}).get("conditions"), "Ready")
    if ready is None or ready["status"] != "True":
        return False
    seconds = owner["spec"].get("minReadySeconds") or 0
    return seconds == 0 or cluster.clock.now() >= parse_time(ready["lastTransitionTime"]) + seconds


def status_differences(resource: Resource, obj: Object, counts: Mapping[str, int]) -> Iterable[str]:
    """Yield a text for each difference between an object's status and its expected counts, and for an old generation.

    counts: expected value of each counter in the status.
    """
    status, what = obj.get("status") or {}, f"{resource.kind} {name_of(obj)}"
    if status.get("observedGeneration", 0) != metadata(obj).get("generation"):
        yield f"{what}: generation {metadata(obj).get('generation')} is not observed"
    for field, count in counts.items():
        if (status.get(field) or 0) != count:
            yield f"{what}: {field} is {status.get(field)} instead of {count}"


def replicas_end_state(cluster: SimulatedCluster, resource: Resource) -> Mapping[str, Any]:
    """Return the spec, the status, and the number of pods by phase of each ReplicaSet or ReplicationController.

    Objects and pods that depend on timing are excluded:

    - ReplicaSets of size 0 that a Deployment owns: their number depends on how rollouts overlapped;
    - all ReplicaSets of Deployments if a node is silent, as a rollout may wait for pods there;
    - pods that the pod garbage collector has set to Failed, if their node was created again before the deletion.
    """
    state: dict[str, Any] = {}
    nodes = set(map(name_of, cluster.shown(NODES)))
    phases: dict[str, Counter[str]] = {}
    for pod in cluster.shown(PODS, NAMESPACE):
        owner = controller_of(pod)
        if owner is not None and not (_failed_by_pod_gc(pod) and pod_facts(pod).node in nodes):
            phases.setdefault(owner.uid, Counter())[_phase(pod_facts(pod))] += 1
    for obj in cluster.shown(resource, NAMESPACE):
        owner = controller_of(obj)
        if owner is not None and (replicas_of(obj) == 0 or not no_node_is_silent(cluster)):
            continue
        called = f"{resource.kind} {name_of(obj) if owner is None else f'of {owner.name}'} {image_of(obj)}"
        pods = {"pods": dict(sorted(phases.get(uid_of(obj), Counter()).items()))} if no_node_is_silent(cluster) else {}
        state[called] = {**spec_and_status_of(cluster, obj), **pods}
    return state


def _failed_by_pod_gc(pod: Object) -> bool:
    condition = find_condition((pod.get("status") or {}).get("conditions"), DISRUPTION_TARGET)
    return pod_facts(pod).phase == "Failed" and condition is not None and condition.get("reason") == CONDITION_REASON


def _phase(facts: PodFacts) -> str:
    return "Terminating" if facts.deleting else facts.phase


def spec_and_status_of(cluster: SimulatedCluster, obj: Object) -> dict[str, Any]:
    """Return spec.replicas, and if no node is silent also the counts and conditions of the status.

    The readiness of pods on silent nodes depends on timing.
    """
    if not no_node_is_silent(cluster):
        return {"replicas": obj["spec"]["replicas"]}
    status = obj.get("status") or {}
    counts = {name: value for name, value in sorted(status.items()) if isinstance(value, int)}
    conditions = sorted((c["type"], c["status"], c.get("reason")) for c in status.get("conditions") or ())
    counts.pop("observedGeneration", None)
    counts.pop("collisionCount", None)
    return {"replicas": obj["spec"]["replicas"], "status": counts, "conditions": conditions}


def image_of(obj: Object) -> str:
    image: str = obj["spec"]["template"]["spec"]["containers"][0]["image"]
    return image
