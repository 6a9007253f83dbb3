"""Simulation trial of the volume expander: users request more storage for claims of several kinds of volumes.

The volumes of hollow claims are expanded by the hollow resizer, FlexVolumes by the expander. The file system of both is
resized by the kubelet of a pod that uses the claim. The driver of a replaced in-tree plugin does not exist here, so the
expander only names it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.storage.persistentvolume_binder.migration import DRIVERS, migrated_plugin
from kcm.actors.controllers.storage.persistentvolume_expander import ExpansionError, UnboundVolumeError
from kcm.actors.controllers.storage.shared.expansion import NODE_IN_PROGRESS, NODE_PENDING, is_node_expanded
from kcm.actors.hollow.provisioner import CLASS
from kcm.actors.hollow.resizer import LARGEST
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.volumes import ExpansionsGoForward
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.silence import no_node_is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, annotations_of, is_deleting, make_key, name_of
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from kcm.protocols.volumes import (
    PRE_RESIZE_CAPACITY,
    RESIZER,
    capacity_of_claim,
    class_of,
    is_bound,
    is_of,
    phase_of,
    requested_storage,
    resize_status_of,
    volume_name_of,
)

NAMES = "grows"  # prefix of the names of claims
STATIC = "growing"  # storage class whose volumes users create
FLEX, EBS, HOLLOW = "flex", "ebs", "hollow"
SOURCES: Mapping[str, Object] = {
    FLEX: {"flexVolume": {"driver": "example.com/flex"}},
    EBS: {"awsElasticBlockStore": {"volumeID": "vol-1"}},
}
SIZES = ("1Gi", "2Gi", "3Gi", "5Gi", "8Gi")  # requests of one claim, ascending
HOST = "kubernetes.io/hostname"


def _actions(scenario: Scenario) -> Iterator[Action]:
    """Yield the user actions of a scenario, on up to three claims.

    No action deletes the nodes of the pods, and the pods tolerate all taints.
    """
    chance = scenario.chance("volume expansion actions")
    nodes = scenario.nodes.keep(chance, 2)
    number_of_claims = chance.randint(0, 3)
    if number_of_claims:
        class_ = {"metadata": {"name": STATIC}, "provisioner": "example.com/none", "allowVolumeExpansion": True}
        yield create(0.5, STORAGE_CLASSES, class_)
    for number in range(number_of_claims):
        kind = chance.choice((FLEX, FLEX, HOLLOW, HOLLOW, EBS))
        yield from _claim_actions(scenario, chance, f"{NAMES}-{kind}-{number}", kind, chance.choice(nodes))


def _claim_actions(scenario: Scenario, chance: random.Random, name: str, kind: str, node: str) -> Iterator[Action]:
    made, *times = scenario.times(chance, 4, first=0.6)
    mode = chance.choice(("Filesystem", "Filesystem", "Block"))
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": SIZES[0]}},
        "storageClassName": CLASS if kind == HOLLOW else STATIC,
        "volumeMode": mode,
    }
    meta: Object = {"name": name, "namespace": NAMESPACE}
    if kind != HOLLOW:
        volume = {
            **SOURCES[kind],
            "capacity": {"storage": SIZES[0]},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STATIC,
            "volumeMode": mode,
        }
        yield create(made, PERSISTENT_VOLUMES, {"metadata": {"name": name}, "spec": volume})
        spec["volumeName"] = name
    is_limited = kind == HOLLOW and chance.random() < 0.3
    if is_limited:
        meta["annotations"] = {LARGEST: SIZES[2]}
    yield create(made + 0.01, PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": spec})
    used = mode == "Filesystem" and kind != EBS and chance.random() < 0.8
    if used:
        yield create(chance.choice(times), PODS, _pod(f"user-of-{name}", name, node))
    if is_limited:
        yield _request(times[0], name, SIZES[-1])
        yield _request(times[1], name, chance.choice(SIZES[1:3]), once_refused=True)
        return
    # Without a pod only the first expansion is certain: the next one waits for the end of the first.
    sizes = sorted(chance.sample(SIZES[1:], chance.randint(1, 3 if used or mode == "Block" else 1)), key=parse_quantity)
    for at, size in zip(times, sizes, strict=False):
        yield _request(round(at + 0.02, 2), name, size)


def _request(at: float, name: str, size: str, *, once_refused: bool = False) -> Action:
    """Return the action that requests another size once the claim is bound, or once its driver refused a larger one."""
    key = make_key(NAMESPACE, name)

    def do(cluster: SimulatedCluster) -> bool:
        claim = cluster.get(PERSISTENT_VOLUME_CLAIMS, key)
        if claim is None or phase_of(claim) != "Bound" or cluster.get(STORAGE_CLASSES, class_of(claim)) is None:
            return False
        if once_refused and resize_status_of(claim) != "ControllerResizeInfeasible":
            return False
        requests = {"spec": {"resources": {"requests": {"storage": size}}}}
        cluster.merge(PERSISTENT_VOLUME_CLAIMS, key, requests)
        return True

    return Action(at, f"claim {name} requests {size}", do)


def _pod(name: str, claim: str, node: str) -> Object:
    spec = {
        "containers": [{"name": "c", "image": "v1"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {HOST: node},
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def bound_pairs(cluster: SimulatedCluster) -> Iterator[tuple[Object, Object]]:
    """Yield each bound claim that is not being deleted, with its volume."""
    volumes = {name_of(volume): volume for volume in cluster.shown(PERSISTENT_VOLUMES)}
    for claim in cluster.shown(PERSISTENT_VOLUME_CLAIMS, NAMESPACE):
        volume = volumes.get(volume_name_of(claim))
        if volume is not None and is_bound(claim) and not is_deleting(claim) and is_of(volume, claim):
            yield claim, volume


def unfinished(claim: Object, volume: Object) -> str:
    """Return what is left to do for the controller that expands the volume, or ""."""
    is_small = parse_quantity(capacity_of_claim(claim)) < parse_quantity(requested_storage(claim))
    if is_small and resize_status_of(claim) not in (NODE_PENDING, NODE_IN_PROGRESS):
        return f"claim {name_of(claim)} has {capacity_of_claim(claim)}, not {requested_storage(claim)}"
    if is_node_expanded(claim, volume) and PRE_RESIZE_CAPACITY in annotations_of(volume):
        return f"volume {name_of(volume)} has an annotation of an expansion that has ended"
    return ""


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for claim, volume in bound_pairs(cluster):
        if "flexVolume" in volume["spec"]:
            if left := unfinished(claim, volume):
                yield left
            continue
        plugin = migrated_plugin(volume)
        is_small = parse_quantity(capacity_of_claim(claim)) < parse_quantity(requested_storage(claim))
        if plugin is not None and is_small and annotations_of(claim).get(RESIZER) != DRIVERS[plugin]:
            yield f"claim {name_of(claim)} does not name the driver of {plugin}"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the sizes of the users' claims and of their volumes, unless a node that must resize them is silent."""
    if not no_node_is_silent(cluster):
        return {}
    return {
        f"size of {name_of(claim)}": (capacity_of_claim(claim), volume["spec"]["capacity"]["storage"])
        for claim, volume in bound_pairs(cluster)
        if name_of(claim).startswith(f"{NAMES}-")
    }


TRIAL = Trial(
    controller="persistentvolume-expander-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda _cluster, _options: (ExpansionsGoForward(),),
    raises=(ExpansionError, UnboundVolumeError),
)
