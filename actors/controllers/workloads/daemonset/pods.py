"""Builds the pods of a DaemonSet. Each pod requires its node by node affinity; the scheduler binds it.

Source: kubernetes v1.36 pkg/controller/daemon/util/daemonset_util.go (CreatePodTemplate,
ReplaceDaemonSetPodNodeNameNodeAffinity).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.shared.pod_control import PodForm
from kcm.actors.controllers.workloads.daemonset.objects import GENERATION_LABEL, HASH_LABEL, DaemonSet
from kcm.actors.controllers.workloads.daemonset.placement import daemon_tolerations
from kcm.protocols.messages.commands import Create
from kcm.protocols.node_affinity import NAME_FIELD, REQUIRED
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import DAEMONSETS, PODS


class DaemonPodForm(PodForm):
    """Builds creation commands for a DaemonSet's pods. Set `nodes` before calling `create`."""

    __slots__ = ("_affinity", "nodes")

    def __init__(self, daemon_set: DaemonSet, *, hash: str) -> None:
        template = pod_template(daemon_set, hash=hash)
        self._affinity = template["spec"].pop("affinity", None)
        super().__init__(template, owner=daemon_set.obj, owner_resource=DAEMONSETS)
        self.nodes: dict[str, str] = {}  # by the name of a pod to create, the name of its node

    def create(self, name: str) -> Create:
        affinity = encode_object(bound_to(self._affinity, self.nodes[name]))
        body = super().create(name).body
        # Insert the affinity after the last field of the spec, which is never empty: it has tolerations.
        return Create(PODS.id, self.namespace, body[:-2] + b',"affinity":' + affinity + b"}}")


def pod_template(daemon_set: DaemonSet, *, hash: str) -> Object:
    """Return the pod template with the labels of the revision `hash` and the tolerations of DaemonSet pods.

    Source: CreatePodTemplate.
    """
    meta, pod_spec = daemon_set.template.get("metadata") or {}, daemon_set.template.get("spec") or {}
    labels = dict(daemon_set.template_labels)
    if daemon_set.template_generation is not None:
        labels[GENERATION_LABEL] = daemon_set.template_generation
    if hash:
        labels[HASH_LABEL] = hash
    tolerations = daemon_tolerations(pod_spec)
    return {"metadata": {**meta, "labels": labels}, "spec": {**pod_spec, "tolerations": tolerations}}


def bound_to(affinity: Mapping[str, Any] | None, node: str) -> Object:
    """Return the affinity with its required node terms replaced by a single term that matches this node.

    Source: ReplaceDaemonSetPodNodeNameNodeAffinity.
    """
    term = {"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}
    nodes = {**((affinity or {}).get("nodeAffinity") or {}), REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**(affinity or {}), "nodeAffinity": nodes}
