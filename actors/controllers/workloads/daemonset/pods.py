"""The pods that a DaemonSet creates: one for a node, which it names by its affinity; the scheduler binds it.

Source: kubernetes v1.36 pkg/controller/daemon/util/daemonset_util.go (CreatePodTemplate,
ReplaceDaemonSetPodNodeNameNodeAffinity).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.shared.pod_control import PodForm
from kcm.actors.controllers.workloads.daemonset.fields import GENERATION_LABEL, HASH_LABEL, DaemonSpec
from kcm.actors.controllers.workloads.daemonset.placement import daemon_tolerations
from kcm.protocols.messages.commands import Create
from kcm.protocols.node_affinity import NAME_FIELD, REQUIRED
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import DAEMONSETS, PODS


class DaemonPodForm(PodForm):
    """nodes: by the name of the pod that is to be made, the name of its node."""

    __slots__ = ("_affinity", "nodes")

    def __init__(self, spec: DaemonSpec, *, hash: str, owner: Object) -> None:
        template = pod_template(spec, hash=hash)
        self._affinity = template["spec"].pop("affinity", None)
        super().__init__(template, owner=owner, owners=DAEMONSETS)
        self.nodes: dict[str, str] = {}

    def create(self, name: str) -> Create:
        affinity = encode_object(bound_to(self._affinity, self.nodes[name]))
        whole = super().create(name).body
        # Behind the spec's last field. It has some: the tolerations.
        return Create(PODS.id, self.namespace, whole[:-2] + b',"affinity":' + affinity + b"}}")


def pod_template(spec: DaemonSpec, *, hash: str) -> Object:
    """The template with what every pod of this revision has more."""
    meta, pod_spec = spec.template.get("metadata") or {}, spec.template.get("spec") or {}
    labels = dict(spec.template_labels)
    if spec.generation is not None:
        labels[GENERATION_LABEL] = spec.generation
    if hash:
        labels[HASH_LABEL] = hash
    tolerations = daemon_tolerations(pod_spec)
    return {"metadata": {**meta, "labels": labels}, "spec": {**pod_spec, "tolerations": tolerations}}


def bound_to(affinity: Mapping[str, Any] | None, node: str) -> Object:
    """The affinity with this node in the place of what it requires of nodes."""
    named = {"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": [node]}]}
    nodes = {**((affinity or {}).get("nodeAffinity") or {}), REQUIRED: {"nodeSelectorTerms": [named]}}
    return {**(affinity or {}), "nodeAffinity": nodes}
