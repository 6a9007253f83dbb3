"""Simulation trial of the hollow scheduler: it binds all pods that can be bound to a node."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.controllers.workloads.daemonset.placement import STAY, placement_of
from kcm.actors.hollow.provisioner import WAITING_CLASS
from kcm.actors.hollow.scheduler.devices.claim_facts import requires_devices
from kcm.actors.reconciliation import controlled_by
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.hollow.devices import ROOM
from kcm.actors.simulation.trials.scenario import NAMESPACE
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.csi import READ_WRITE_ONCE_POD
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import Key, Object, controller_of, is_deleting, labels_of, name_of
from kcm.protocols.pods import is_terminal, pod_facts
from kcm.protocols.resources import DAEMONSETS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_CLAIMS
from kcm.protocols.volumes import claim_keys, claims_of, class_of, is_bound, phase_of


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for pod in cluster.shown(PODS, NAMESPACE):
        facts = pod_facts(pod)
        if facts.node or is_terminal(facts) or _waits_for_claim(cluster, pod) or _is_kept_off(cluster, pod):
            continue
        if requires_devices(pod) or labels_of(pod) == ROOM:
            continue  # checked by the trial of devices
        yield f"pod {name_of(pod)} is not bound to a node"


def _waits_for_claim(cluster: SimulatedCluster, pod: Object) -> bool:
    """Report whether the pod waits for one of its claims.

    It does if the claim is missing, terminating or Lost, if it is unbound although its class does not wait for the
    first pod, if it has the name of an ephemeral volume's claim, but is not the pod's, or if another pod uses it and
    only one may.
    """
    for use in claims_of(pod):
        claim = cluster.get(PERSISTENT_VOLUME_CLAIMS, use.claim)
        if claim is None or is_deleting(claim) or phase_of(claim) == "Lost":
            return True
        if use.ephemeral and not controlled_by(claim, pod):
            return True
        if not is_bound(claim) and class_of(claim) != WAITING_CLASS:
            return True
        if READ_WRITE_ONCE_POD in claim["spec"]["accessModes"] and _is_used(cluster, use.claim):
            return True
    return False


def _is_used(cluster: SimulatedCluster, claim: Key) -> bool:
    """Report whether a pod that is bound to a node and not terminated uses the claim."""
    return any(
        facts.node and not is_terminal(facts) and claim in claim_keys(pod)
        for pod, facts in cluster.shown_pods(NAMESPACE)
    )


def _is_kept_off(cluster: SimulatedCluster, pod: Object) -> bool:
    """Report whether a DaemonSet's pod cannot be bound because its node has got a taint that it does not tolerate.

    The controller created such a pod before it observed the taint, and keeps it, as upstream: see may_stay in
    placement.py.
    """
    owner, target = controller_of(pod), pod_facts(pod).target
    if owner is None or owner.kind != DAEMONSETS.kind:
        return False
    placement = placement_of(pod, comparing=False)
    nodes = (node for node in cluster.shown(NODES) if name_of(node) == target)
    return any(placement.verdict(node_facts(node).placement) == STAY for node in nodes)


TRIAL = Trial(
    controller="hollow-scheduler-controller",
    unsettled=_unsettled,
    deletes=(PODS, RESOURCE_CLAIMS),  # preempted pods, and claims for extended resources
)
