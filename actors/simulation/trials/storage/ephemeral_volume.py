"""Simulation trial of the ephemeral volume controller: users create pods with ephemeral volumes, and delete them.

They also delete claims of such pods, replace a pod by another one with its name, and create a claim with the name that
the claim of an ephemeral volume would have.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.storage.ephemeral_volume import ForeignClaimError, ephemeral_volumes
from kcm.actors.hollow.provisioner import CLASS, WAITING_CLASS
from kcm.actors.reconciliation import controlled_by
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.volumes import ClaimsOfEphemeralVolumes
from kcm.actors.simulation.trials.actions import create, delete, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.storage.actions import SIZES, UNKNOWN
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, is_deleting, make_key, name_of
from kcm.protocols.pods import is_terminal, pod_facts
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kcm.protocols.volumes import ephemeral_claim_name, phase_of, requested_storage

NAMES = "scratch"  # prefix of the names of pods
HOST = "kubernetes.io/hostname"


def _actions(scenario: Scenario) -> Iterator[Action]:
    """Yield the user actions of a scenario, with up to three pods.

    No action deletes the nodes of these pods, and the pods tolerate all taints, so that the end state contains them.
    """
    chance = scenario.chance("ephemeral volume actions")
    nodes = scenario.nodes.keep(chance, 2)
    for number in range(chance.randint(0, 3)):
        yield from _pod_actions(scenario, chance, f"{NAMES}-{number}", chance.choice(nodes))


def _pod_actions(scenario: Scenario, chance: random.Random, name: str, node: str) -> Iterator[Action]:
    early, made, changed, removed, again = scenario.times(chance, 5, first=0.5)
    pod = _pod(chance, name, node)
    volume = chance.choice(pod["spec"]["volumes"])["name"]
    claim = make_key(NAMESPACE, f"{name}-{volume}")
    if chance.random() < 0.25:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}
        taken = {"metadata": {"name": f"{name}-{volume}", "namespace": NAMESPACE}, "spec": spec}
        yield create(early, PERSISTENT_VOLUME_CLAIMS, taken)
        if chance.random() < 0.7:
            yield unless_gone(delete(removed, PERSISTENT_VOLUME_CLAIMS, claim), PERSISTENT_VOLUME_CLAIMS, claim)
    elif chance.random() < 0.5:
        yield unless_gone(delete(changed, PERSISTENT_VOLUME_CLAIMS, claim), PERSISTENT_VOLUME_CLAIMS, claim)
    yield create(made, PODS, pod)
    if chance.random() < 0.5:
        key = make_key(NAMESPACE, name)
        yield unless_gone(delete(removed, PODS, key), PODS, key)
        if scenario.steady and chance.random() < 0.6:  # on a silent node the first pod would remain
            yield create(again, PODS, _pod(chance, name, node))


def _pod(chance: random.Random, name: str, node: str) -> Object:
    """Draw a pod with one or two ephemeral volumes, and perhaps another one."""
    volumes: list[Object] = [
        {"name": volume, "ephemeral": {"volumeClaimTemplate": _template(chance)}}
        for volume in ("data", "cache")[: chance.randint(1, 2)]
    ]
    if chance.random() < 0.3:
        volumes.insert(0, {"name": "empty", "emptyDir": {}})
    spec = {
        "containers": [{"name": "c", "image": "v1"}],
        "volumes": volumes,
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {HOST: node},
    }
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _template(chance: random.Random) -> Object:
    class_ = chance.choice((CLASS, CLASS, WAITING_CLASS, UNKNOWN))
    size = {"requests": {"storage": chance.choice(SIZES)}}
    template: Object = {
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class_, "resources": size},
    }
    if chance.random() < 0.5:
        template["metadata"] = {"labels": {"kind": "scratch"}, "annotations": {"note": "from the template"}}
    return template


def _pods(cluster: SimulatedCluster) -> Iterator[tuple[Object, str, Object | None]]:
    """Yield (pod, name of a claim, claim) for each ephemeral volume of a pod that is not being deleted."""
    claims = {name_of(claim): claim for claim in cluster.shown(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)}
    for pod in cluster.shown(PODS, NAMESPACE):
        if not is_deleting(pod):
            for volume in ephemeral_volumes(pod):
                name = ephemeral_claim_name(pod, volume)
                yield pod, name, claims.get(name)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    """Yield a text for each missing claim. A claim that is not of the pod stops the claims of its later volumes."""
    stopped: set[str] = set()
    for pod, name, claim in _pods(cluster):
        if name_of(pod) in stopped or is_terminal(pod_facts(pod)):
            continue
        if claim is None:
            yield f"pod {name_of(pod)} has no claim {name}"
        elif not controlled_by(claim, pod):
            stopped.add(name_of(pod))


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the claims of the users' pods, and whether they are the pods' own."""
    return {
        f"ephemeral claim {name}": "missing"
        if claim is None
        else f"{requested_storage(claim)} {phase_of(claim)}" + (" of its pod" if controlled_by(claim, pod) else "")
        for pod, name, claim in _pods(cluster)
        if name_of(pod).startswith(f"{NAMES}-")
    }


TRIAL = Trial(
    controller="ephemeral-volume-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda _cluster, _options: (ClaimsOfEphemeralVolumes(),),
    raises=(ForeignClaimError,),
)
