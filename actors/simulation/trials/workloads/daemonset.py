"""Simulation trial of the DaemonSet controller.

Users create DaemonSets, change their templates and strategies, delete pods, and label and taint nodes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.workloads.daemonset.objects import GENERATION_ANNOTATION, GENERATION_LABEL, HASH_LABEL
from kcm.actors.controllers.workloads.daemonset.placement import NodeVerdict, placement_of
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.ownership import Owns
from kcm.actors.simulation.invariants.workloads.daemons import OneDaemonPodPerNode
from kcm.actors.simulation.trials.actions import create, delete, merge, replace
from kcm.actors.simulation.trials.nodes.actions import set_taint
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.silence import no_node_is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.actors.simulation.trials.workloads.actions import orphan, pods_of
from kcm.actors.simulation.trials.workloads.outcome import image_of, is_available, status_differences
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import Object, annotations_of, controller_of, labels_of, make_key, metadata, name_of, uid_of
from kcm.protocols.pods import is_terminal, pod_facts
from kcm.protocols.resources import CONTROLLER_REVISIONS, DAEMONSETS, NODES, PODS

NAME = "agent"
LABEL = "example.com/agents"  # label of nodes that some DaemonSets select
# No pod tolerates this taint for a limited time. Such a pod would be evicted and created again repeatedly.
TAINT = "example.com/no-agents"
IMAGES = 4
LIMITS = ((1, 0), (1, 0), (2, 0), ("50%", 0), (0, 1), (0, 2), (0, "50%"))  # maxUnavailable, maxSurge
POLICIES = ("Background", "Background", "Orphan")


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("daemonset actions")
    for name in scenario.names(chance, NAME, chance.choice((1, 1, 2))):
        yield from _life(scenario, chance, name)
    for node in scenario.nodes.keep(chance, 2):
        for at in scenario.times(chance, chance.randint(1, 2)):
            yield _label(at, node, chance.choice(("yes", "yes", "no")))
    if chance.random() < 0.3 and (tainted := scenario.nodes.take()) is not None:
        begin, end = scenario.times(chance, 2)
        yield set_taint(begin, tainted, TAINT, there=True)
        if chance.random() < 0.5:
            yield set_taint(end, tainted, TAINT, there=False)


def _life(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on one DaemonSet and its pods, in random order."""
    key = make_key(NAMESPACE, name)

    def change_spec(at: float) -> Iterator[Action]:
        what, changes = chance.choice(CHANGES)(chance)
        yield merge(at, DAEMONSETS, key, {"spec": changes}, what)

    def delete_pod(at: float) -> Iterator[Action]:
        yield _delete_one_pod(at, name, chance.randrange(6))

    def create_stray_pod(at: float) -> Iterator[Action]:
        yield orphan(at, name)

    def recreate(at: float) -> Iterator[Action]:
        yield replace(at, DAEMONSETS, key, _daemon_set(chance, name))

    def make(at: float) -> Iterator[Action]:
        yield create(at, DAEMONSETS, _daemon_set(chance, name))

    def remove(at: float) -> Iterator[Action]:
        yield delete(at, DAEMONSETS, key, policy=chance.choice(POLICIES))

    changes = (change_spec, change_spec, change_spec, change_spec, delete_pod, create_stray_pod, recreate)
    return scenario.life(chance, make=make, remove=remove, changes=changes, most=6)


def _image(chance: random.Random) -> tuple[str, Object]:
    image = f"v{chance.randint(1, IMAGES)}"
    return f"image {image}", {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}


def _strategy(chance: random.Random) -> tuple[str, Object]:
    if chance.random() < 0.15:
        return "strategy OnDelete", {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}
    unavailable, surge = chance.choice(LIMITS)
    limits = {"maxUnavailable": unavailable, "maxSurge": surge}
    return f"strategy {limits}", {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}


def _min_ready_seconds(chance: random.Random) -> tuple[str, Object]:
    seconds = chance.choice((0, 1, 4))
    return f"minReadySeconds {seconds}", {"minReadySeconds": seconds}


def _history_limit(chance: random.Random) -> tuple[str, Object]:
    kept = chance.choice((0, 1, 5))
    return f"keeps {kept} old revisions", {"revisionHistoryLimit": kept}


def _node_selector(chance: random.Random) -> tuple[str, Object]:
    wanted = chance.choice(("yes", None))
    return f"nodes with {LABEL} {wanted}", {"template": {"spec": {"nodeSelector": {LABEL: wanted}}}}


CHANGES = (_image, _image, _image, _strategy, _min_ready_seconds, _history_limit, _node_selector)


def _daemon_set(chance: random.Random, name: str) -> Object:
    template: Object = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": f"v{chance.choice((1, 1, IMAGES))}"}]},
    }
    spec: Object = {"selector": {"matchLabels": {"app": name}}, "template": template}
    if chance.random() < 0.7:
        spec |= _strategy(chance)[1]
    if chance.random() < 0.3:
        spec |= _min_ready_seconds(chance)[1]
    if chance.random() < 0.3:
        spec |= _history_limit(chance)[1]
    if chance.random() < 0.2:
        template["spec"]["nodeSelector"] = {LABEL: "yes"}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _label(at: float, node: str, value: str) -> Action:
    return merge(at, NODES, node, {"metadata": {"labels": {LABEL: value}}}, f"{LABEL} {value}")


def _delete_one_pod(at: float, app: str, index: int) -> Action:
    """Return the action that deletes a pod of an app, if it has one.

    Unlike for other workloads, an app may have no pods, because this depends on the nodes.
    """

    def do(cluster: SimulatedCluster) -> bool:
        pods = [pod for pod in pods_of(cluster, app) if not metadata(pod).get("deletionTimestamp")]
        if pods:
            cluster.delete(PODS, make_key(NAMESPACE, name_of(pods[index % len(pods)])))
        return True

    return Action(at, f"delete a pod of {app}, if there is one", do)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    nodes = {name_of(node): node for node in cluster.shown(NODES)}
    pods: dict[str, dict[str, list[Object]]] = {}  # by owner, by node
    sets = cluster.shown(DAEMONSETS, NAMESPACE)
    for pod in cluster.shown(PODS, NAMESPACE):
        owner, facts = controller_of(pod), pod_facts(pod)
        if is_terminal(facts):
            continue
        if owner is None:
            if not facts.deleting and labels_of(pod).get("app", "") in map(name_of, sets):
                yield f"pod {name_of(pod)} is not adopted"
        elif owner.kind == DAEMONSETS.kind:
            pods.setdefault(owner.uid, {}).setdefault(facts.target, []).append(pod)
    for obj in sets:
        yield from _unsettled_set(cluster, obj, nodes, pods.get(uid_of(obj), {}))


def _unsettled_set(
    cluster: SimulatedCluster, obj: Object, nodes: Mapping[str, Object], pods: Mapping[str, list[Object]]
) -> Iterable[str]:
    what, no_silent_nodes = f"DaemonSet {name_of(obj)}", no_node_is_silent(cluster)
    revisions = [revision for revision in cluster.shown(CONTROLLER_REVISIONS, NAMESPACE) if _is_of(revision, obj)]
    current = [revision for revision in revisions if _recorded(revision) == _recorded({"data": obj})]
    if len(current) != 1 or current[0]["revision"] != max(revision["revision"] for revision in revisions):
        yield f"{what}: {len(current)} of {len(revisions)} revisions have its template, or a newer revision exists"
        return
    hash = labels_of(current[0]).get(HASH_LABEL)
    rolls = (obj["spec"].get("updateStrategy") or {}).get("type") != "OnDelete"
    counts = dict.fromkeys(("desiredNumberScheduled", "currentNumberScheduled", "numberMisscheduled"), 0)
    counts |= dict.fromkeys(("numberReady", "numberAvailable"), 0)
    for name, node in nodes.items():
        verdict, here = _verdict(obj, node), pods.get(name, [])
        active = [pod for pod in here if not pod_facts(pod).deleting]
        if verdict.should_run:
            counts["desiredNumberScheduled"] += 1
            counts["currentNumberScheduled"] += bool(here)
        else:
            counts["numberMisscheduled"] += bool(here)
        if len(active) > 1 and no_silent_nodes:
            yield f"{what}: {len(active)} pods on {name}"
        elif verdict.should_run and not here:
            yield f"{what}: no pod on {name}"
        elif active and not verdict.may_stay:
            yield f"{what}: a pod on {name}, where it may not stay"
        elif active and rolls and no_silent_nodes and verdict.should_run and not _is_updated(active[0], obj, hash):
            yield f"{what}: a pod with an old template on {name}"
        if verdict.should_run and len(here) == 1:
            counts["numberReady"] += pod_facts(here[0]).ready
            counts["numberAvailable"] += is_available(cluster, obj, here[0])
    if no_silent_nodes:
        yield from status_differences(DAEMONSETS, obj, counts)


def _recorded(revision: Object) -> Object:
    """Return the pod spec in the template of a ControllerRevision, without empty fields."""
    spec = revision["data"]["spec"]["template"]["spec"]
    return {field: value for field, value in spec.items() if value != {}}


def _is_updated(pod: Object, obj: Object, hash: str | None) -> bool:
    """Report whether the pod has the current template, by the hash label or by the label with the template generation.

    As upstream, the generation may be from an earlier DaemonSet of the same name.

    hash: hash of the current template.
    """
    labels = labels_of(pod)
    number = annotations_of(obj).get(GENERATION_ANNOTATION)
    return labels.get(HASH_LABEL) == hash or (number is not None and labels.get(GENERATION_LABEL) == number)


def _is_of(dependent: Object, owner: Object) -> bool:
    controller = controller_of(dependent)
    return controller is not None and controller.uid == uid_of(owner)


def _verdict(obj: Object, node: Object) -> NodeVerdict:
    return placement_of(obj["spec"]["template"], comparing=False).verdict(node_facts(node).placement)


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the strategy of each DaemonSet, and the counts of its pods if no node is silent.

    Two counts are not included, because they depend on timing: pods that existed before their node was tainted, and
    may stay; and updated pods with the strategy OnDelete.
    """
    state: dict[str, Any] = {}
    for obj in cluster.shown(DAEMONSETS, NAMESPACE):
        entry = state[f"DaemonSet {name_of(obj)} {image_of(obj)}"] = {"strategy": obj["spec"].get("updateStrategy")}
        if no_node_is_silent(cluster):
            status = obj.get("status") or {}
            counted = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable")
            entry["status"] = {name: status.get(name, 0) for name in counted}
    return state


TRIAL = Trial(
    controller="daemonset-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda cluster, _options: (OneDaemonPodPerNode(cluster),),
    owns=(Owns(DAEMONSETS, PODS), Owns(DAEMONSETS, CONTROLLER_REVISIONS)),
)
