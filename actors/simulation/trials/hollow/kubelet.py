"""Simulation trial of the hollow kubelets: their pods become ready, and terminating pods disappear.

A pod whose volumes are not attached need not become ready: another node may have its volume. Nor does a pod whose
volume only one pod may use, while another pod uses it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.hollow.behaviour import has_csi_driver
from kcm.actors.hollow.kubelet.volumes import has_begun
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.scenario import NAMESPACE
from kcm.actors.simulation.trials.silence import is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.csi import READ_WRITE_ONCE_POD, attached_names, csi_source, requires_attach
from kcm.protocols.objects import Key, Object, name_of, uid_of
from kcm.protocols.pods import is_terminal, pod_facts
from kcm.protocols.resources import CSI_DRIVERS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.volumes import claim_keys, volume_name_of


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    """Yield a text for each pod that is terminating or not ready on a node that is not silent."""
    speaking = {name_of(node) for node in cluster.shown(NODES) if not is_silent(node)}
    for pod in cluster.shown(PODS, NAMESPACE):
        facts = pod_facts(pod)
        if facts.node not in speaking:
            continue
        if facts.deleting:
            yield f"pod {name_of(pod)} is terminating"
        elif not is_terminal(facts) and not facts.ready and not _waits_for_volumes(cluster, pod):
            yield f"pod {name_of(pod)} is not ready on {facts.node}, which is not silent"


def _waits_for_volumes(cluster: SimulatedCluster, pod: Object) -> bool:
    """Report whether a claim of the pod is not bound, or its volume is not attached."""
    for key in claim_keys(pod):
        claim = cluster.get(PERSISTENT_VOLUME_CLAIMS, key)
        volume = None if claim is None else cluster.get(PERSISTENT_VOLUMES, volume_name_of(claim) or "-")
        node = cluster.get(NODES, pod["spec"]["nodeName"])
        if volume is None or node is None:
            return True
        if list(volume["spec"].get("accessModes") or ()) == [READ_WRITE_ONCE_POD]:
            if _is_used_by_another_pod(cluster, pod, key):
                return True
        source = csi_source(volume)
        if source is None or not has_csi_driver(node, source.driver):
            continue
        required = requires_attach(cluster.get(CSI_DRIVERS, source.driver))
        if required and source.unique_name not in attached_names(node):
            return True
    return False


def _is_used_by_another_pod(cluster: SimulatedCluster, pod: Object, claim: Key) -> bool:
    """Report whether another pod on the node runs with the claim."""
    return any(
        uid_of(other) != uid_of(pod)
        and facts.node == pod["spec"]["nodeName"]
        and not is_terminal(facts)
        and has_begun(other)
        and claim in claim_keys(other)
        for other, facts in cluster.shown_pods(NAMESPACE)
    )


TRIAL = Trial(controller="hollow-kubelet-controller", unsettled=_unsettled, deletes=(PODS,))
