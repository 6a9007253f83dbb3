"""What a simulated cluster with node controllers comes to: what is not yet as it should be, and its end state.

What faults may decide for good is left out: which pod was where, and so which pods without an owner were evicted; and
whether a node was tainted NoExecute before its zone was so disrupted that no more of it are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from actors.controllers.cloud.cloud_node_lifecycle import SHUTDOWN
from actors.controllers.nodes.node_lifecycle.settings import lifecycle_settings
from actors.controllers.nodes.pod_garbage_collector import OUT_OF_SERVICE_TAINT, PodGarbageCollectorOptions
from actors.controllers.nodes.taint_eviction import no_execute_taints
from actors.controllers.nodes.ttl import ANNOTATION
from actors.options import Options
from actors.simulation import SimulatedCluster
from actors.simulation.campaign.node_scenarios import fake_cloud, is_patient, is_silent
from actors.simulation.campaign.scenarios import NAMESPACE
from actors.simulation.invariants.zone_rates import eviction_rates
from protocols.conditions import find_condition
from protocols.nodes import NO_EXECUTE, NO_EXECUTE_KEYS, UNREACHABLE, node_facts
from protocols.objects import Object, annotations_of, controller_of, metadata, name_of, uid_of
from protocols.pods import is_active, is_terminal, pod_facts
from protocols.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS
from protocols.tolerations import find_toleration


def node_end_state(cluster: SimulatedCluster) -> dict[str, Any]:
    """All that the wishes determine."""
    state: dict[str, Any] = {}
    nodes, options = cluster.list(NODES), _options(cluster)
    rates = eviction_rates(map(node_facts, nodes), lifecycle_settings(options).limits)
    for node in nodes:
        undecided = rates.get(node_facts(node).zone) == 0
        taints = sorted(
            (taint["key"], taint["effect"])
            for taint in node["spec"].get("taints") or ()
            if not (undecided and taint["effect"] == NO_EXECUTE and taint["key"] in NO_EXECUTE_KEYS)
        )
        conditions = {each["type"]: each["status"] for each in node["status"].get("conditions") or ()}
        cordoned = bool(node["spec"].get("unschedulable"))
        state[f"Node {name_of(node)}"] = {"conditions": conditions, "taints": taints, "cordoned": cordoned}
    for resource in (DEPLOYMENTS, REPLICASETS):
        for obj in cluster.list(resource, NAMESPACE):
            if controller_of(obj) is None:
                image = obj["spec"]["template"]["spec"]["containers"][0]["image"]
                state[f"{resource.kind} {name_of(obj)}"] = {"replicas": obj["spec"]["replicas"], "image": image}
    state["patient pods"] = sorted(name_of(pod) for pod in cluster.list(PODS, NAMESPACE) if is_patient(pod))
    return state


def node_unsettled(cluster: SimulatedCluster) -> list[str]:
    """What is not yet as it is wished: nothing, once the system has settled."""
    nodes = {name_of(node): node for node in cluster.list(NODES)}
    pods, options = cluster.list(PODS, NAMESPACE), _options(cluster)
    found = [
        *_nodes_unsettled(cluster, nodes.values(), options),
        *_networks_unsettled(cluster, nodes.values(), options),
    ]
    found += _pods_unsettled(pods, nodes, options)
    found += _workloads_unsettled(cluster, pods)
    return found


def _options(cluster: SimulatedCluster) -> Options:
    return cluster.processes["manager"].options or Options()


# Nodes.


def _nodes_unsettled(cluster: SimulatedCluster, nodes: Iterable[Object], options: Options) -> Iterable[str]:
    machines = fake_cloud(cluster).instances
    rates = eviction_rates(map(node_facts, nodes), lifecycle_settings(options).limits)
    for node in nodes:
        name, facts = name_of(node), node_facts(node)
        wanted = "Unknown" if is_silent(node) else "True"
        if facts.ready != wanted:
            yield f"{name}: Ready is {facts.ready}, wanted {wanted}"
        if facts.no_schedule != facts.wanted_no_schedule:
            yield f"{name}: tainted {sorted(facts.no_schedule)}, wanted {sorted(facts.wanted_no_schedule)}"
        wanted_keys = {UNREACHABLE} if facts.ready == "Unknown" else set()
        decided = facts.ready == "True" or rates.get(facts.zone, 0.0) > 0
        if decided and facts.no_execute != wanted_keys:
            yield f"{name}: tainted NoExecute {sorted(facts.no_execute)}, wanted {sorted(wanted_keys)}"
        if facts.ready != "True" and not machines.exists(node):
            yield f"{name}: its machine is gone, and it is still there"
        shut_down = facts.ready != "True" and machines.is_shut_down(node)
        if any(taint["key"] == SHUTDOWN for taint in node["spec"].get("taints") or ()) != shut_down:
            yield f"{name}: its taint does not say whether its machine is shut down"
        if annotations_of(node).get(ANNOTATION) != "0":
            yield f"{name}: its ttl is {annotations_of(node).get(ANNOTATION)}"


def _networks_unsettled(cluster: SimulatedCluster, nodes: Iterable[Object], options: Options) -> Iterable[str]:
    wanted: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        ranges = node["spec"].get("podCIDRs") or ()
        if not ranges:
            yield f"{name_of(node)}: it has no range"
        wanted.update((name_of(node), one) for one in ranges)
        condition = find_condition(node["status"].get("conditions"), "NetworkUnavailable")
        if condition is None or condition["status"] != "False":
            yield f"{name_of(node)}: its network is not available"
    routes = Counter((r.node, r.destination) for r in fake_cloud(cluster).routes.list(options.cloud.cluster_name))
    if routes != wanted:
        yield f"routes are {sorted(routes)}, wanted {sorted(wanted)}"


# Pods.


def _pods_unsettled(pods: Iterable[Object], nodes: Mapping[str, Object], options: Options) -> Iterable[str]:
    ended = 0
    for pod in pods:
        name, facts = name_of(pod), pod_facts(pod)
        node = nodes.get(facts.node)
        ended += is_terminal(facts)
        if node is None:
            yield f"pod {name} is on {facts.node or 'no node'}"
            continue
        silent = is_silent(node)
        if facts.deleting:
            out = any(taint["key"] == OUT_OF_SERVICE_TAINT for taint in node["spec"].get("taints") or ())
            if not silent or out:
                yield f"pod {name} is on its way out"
            continue
        if silent and facts.ready:
            yield f"pod {name} is ready on {facts.node}, which is silent"
        if not silent and not is_terminal(facts) and not facts.ready:
            yield f"pod {name} is not ready on {facts.node}, which is not silent"
        if _has_to_go(pod, node):
            yield f"pod {name} does not tolerate the taints of {facts.node} for ever"
    if ended > options[PodGarbageCollectorOptions].terminated_pod_threshold:
        yield f"{ended} pods have ended"


def _has_to_go(pod: Object, node: Object) -> bool:
    for taint in no_execute_taints(node):
        toleration = find_toleration(pod["spec"].get("tolerations"), taint)
        if toleration is None or toleration.get("tolerationSeconds") is not None:
            return True
    return False


# Workloads: the numbers that their status says are those that there are.


def _workloads_unsettled(cluster: SimulatedCluster, pods: Iterable[Object]) -> Iterable[str]:
    owned: dict[str, list[Object]] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner is not None and not is_terminal(pod_facts(pod)):
            owned.setdefault(owner.uid, []).append(pod)
    replica_sets = cluster.list(REPLICASETS, NAMESPACE)
    for obj in replica_sets:
        facts = [pod_facts(pod) for pod in owned.get(uid_of(obj), ())]
        active = [one for one in facts if is_active(one)]
        yield from _differences(
            obj,
            {
                "replicas": len(active),
                "readyReplicas": sum(1 for one in active if one.ready),
                "terminatingReplicas": len(facts) - len(active),
            },
        )
        if len(active) != obj["spec"]["replicas"]:
            yield f"ReplicaSet {name_of(obj)}: {len(active)} pods, wanted {obj['spec']['replicas']}"
    for obj in cluster.list(DEPLOYMENTS, NAMESPACE):
        mine = [one for one in replica_sets if (owner := controller_of(one)) is not None and owner.uid == uid_of(obj)]
        ready = sum(one["status"].get("readyReplicas") or 0 for one in mine)
        wanted = obj["spec"]["replicas"]
        yield from _differences(obj, {"replicas": wanted, "updatedReplicas": wanted, "readyReplicas": ready})


def _differences(obj: Object, wanted: Mapping[str, int]) -> Iterable[str]:
    status, what = obj.get("status") or {}, f"{obj.get('kind', '')} {name_of(obj)}".strip()
    if status.get("observedGeneration", 0) != metadata(obj).get("generation"):
        yield f"{what}: generation {metadata(obj).get('generation')} is not observed"
    for field, count in wanted.items():
        if (status.get(field) or 0) != count:
            yield f"{what}: {field} is {status.get(field)}, there are {count}"
