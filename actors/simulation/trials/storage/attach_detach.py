"""Simulation trial of the attach/detach controller: pods that share volumes, on nodes that fail.

Users create pods on different nodes that use one claim, one after the other or at the same time. Some nodes attach
volumes slowly, or fail to attach them for some time. Others are lost: users mark them as out of service, or delete
their pods by force.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from kcm.actors.controllers.storage.attach_detach import SPEC
from kcm.actors.controllers.storage.attach_detach.decisions import attachment_of
from kcm.actors.controllers.storage.attach_detach.reconciler import VOLUME_QUEUE
from kcm.actors.engine.controller.actor import Controller
from kcm.actors.hollow.behaviour import ATTACH_ERROR, ATTACH_SECONDS, DETACH_SECONDS, has_csi_driver
from kcm.actors.hollow.provisioner import CLASS
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.attachments import AttachedWhereAllowed, DetachedWhenUnused
from kcm.actors.simulation.trials.actions import create, delete, merge, unless_gone
from kcm.actors.simulation.trials.nodes.actions import draw_period, set_taint
from kcm.actors.simulation.trials.nodes.taints import tolerations
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.silence import silence_patch
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.csi import (
    attached_names,
    attached_volume,
    attachment_name,
    csi_source,
    in_use_names,
    is_attached,
    is_single_node,
    requires_attach,
)
from kcm.protocols.nodes import OUT_OF_SERVICE_TAINT, has_out_of_service_taint
from kcm.protocols.objects import Object, annotations_of, is_deleting, make_key, name_of, uid_of
from kcm.protocols.resources import (
    CSI_DRIVERS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
)
from kcm.protocols.volumes import claim_keys, claims_of, is_bound, is_pod_ended, phase_of, volume_name_of

MODES = (["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteMany"])
SLOW = ("2", "10", "130")  # seconds; after 120 s an attachment is uncertain


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("attach detach actions")
    nodes = scenario.nodes.keep(chance, 3)
    for number in range(chance.randint(1, 3)):
        yield from _claim_actions(scenario, chance, f"moved-{number}", nodes)
    if nodes and chance.random() < 0.4:
        yield from _slow_node(scenario, chance, chance.choice(nodes))
    if chance.random() < 0.4 and (name := scenario.nodes.take()) is not None:
        yield from _lost_node(scenario, chance, name)


def _claim_actions(scenario: Scenario, chance: random.Random, name: str, nodes: list[str]) -> Iterator[Action]:
    """Yield the actions on a claim and up to three pods that use it, each on a chosen node or wherever it fits."""
    made, *times = scenario.times(chance, 7, first=0.5)
    spec: Object = {
        "accessModes": chance.choice(MODES),
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": CLASS,
    }
    yield create(made, PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    for number in range(chance.randint(1, 3)):
        user = f"{name}-user-{number}"
        begins, ends = sorted(chance.sample(times, 2))
        yield create(begins, PODS, _pod(user, name, node=chance.choice([*nodes, ""])))
        if chance.random() < 0.7:
            key = make_key(NAMESPACE, user)
            yield unless_gone(delete(round(ends + 0.01, 2), PODS, key), PODS, key)


def _pod(name: str, claim: str, *, node: str) -> Object:
    spec: Object = {
        "containers": [{"name": "c", "image": "v1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        "tolerations": tolerations(15, maintenance=None),
    }
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _slow_node(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions that make a node attach or detach slowly, or fail to attach, for some time."""
    period = draw_period(scenario, chance)
    changed, value = chance.choice(
        [
            (ATTACH_ERROR, "no such disk"),
            *((field, seconds) for field in (ATTACH_SECONDS, DETACH_SECONDS) for seconds in SLOW),
        ]
    )
    yield merge(period.at, NODES, name, {"metadata": {"annotations": {changed: value}}})
    yield merge(period.end, NODES, name, {"metadata": {"annotations": {changed: None}}})


def _lost_node(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions that silence a node permanently, and declare it out of service or delete its pods by force."""
    period = draw_period(scenario, chance)
    yield merge(period.at, NODES, name, silence_patch(True), "is silent")
    if chance.random() < 0.5:
        yield set_taint(period.end, name, OUT_OF_SERVICE_TAINT, there=True)
    else:
        yield Action(
            period.end, f"the pods of {name} are deleted by force", lambda cluster: _delete_pods(cluster, name)
        )


def _delete_pods(cluster: SimulatedCluster, node: str) -> bool:
    for pod in cluster.list(PODS, NAMESPACE):
        if pod["spec"].get("nodeName") == node:
            cluster.delete(PODS, make_key(NAMESPACE, name_of(pod)), grace_seconds=0)
    return True


class _View:
    """State of volumes on the server, for the comparison of attachments with pods."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.nodes = {name_of(node): node for node in cluster.shown(NODES)}
        self.volumes = {name_of(volume): volume for volume in cluster.shown(PERSISTENT_VOLUMES)}
        self.attachments = {name_of(known): known for known in cluster.shown(VOLUME_ATTACHMENTS)}
        self._drivers = {name_of(driver): driver for driver in cluster.shown(CSI_DRIVERS)}
        claims = cluster.shown(PERSISTENT_VOLUME_CLAIMS)
        self._claims = {make_key(claim["metadata"]["namespace"], name_of(claim)): claim for claim in claims}
        self.needed: dict[str, set[str]] = {}  # names of nodes by name of the volume
        self.named: dict[str, set[str]] = {}  # the same, even if the volume does not exist
        for pod in cluster.shown(PODS):
            if not is_pod_ended(pod) and pod["spec"].get("nodeName") in self.nodes:
                for volume in self._attachable(pod):
                    self.needed.setdefault(name_of(volume), set()).add(pod["spec"]["nodeName"])
                for claim in filter(None, map(self._claims.get, claim_keys(pod))):
                    self.named.setdefault(volume_name_of(claim), set()).add(pod["spec"]["nodeName"])

    def _attachable(self, pod: Object) -> Iterator[Object]:
        for use in claims_of(pod):
            claim = self._claims.get(use.claim)
            volume = None if claim is None else self.volumes.get(volume_name_of(claim))
            if claim is None or volume is None or not is_bound(claim) or phase_of(claim) != "Bound":
                continue
            if (volume["spec"].get("claimRef") or {}).get("uid") == uid_of(claim) and self.is_attachable(volume):
                yield volume

    def is_attachable(self, volume: Object) -> bool:
        source = csi_source(volume)
        return source is not None and requires_attach(self._drivers.get(source.driver))

    def attached_to(self, volume: Object) -> set[str]:
        found = self.attachments.values()
        return {
            attachment["spec"]["nodeName"] for attachment in found if attached_volume(attachment) == name_of(volume)
        }


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    view = _View(cluster)
    yield from _missing(view)
    yield from superfluous(cluster)
    for node in view.nodes.values():
        for unique in attached_names(node):
            if not any(
                unique == _unique(view.volumes.get(attached_volume(attachment))) for attachment in _on(view, node)
            ):
                yield f"node {name_of(node)} reports {unique}, which is not attached"


def _missing(view: _View) -> Iterator[str]:
    for name, nodes in view.needed.items():
        volume = view.volumes[name]
        source = csi_source(volume)
        elsewhere = view.attached_to(volume)
        for node in nodes:
            if source is None or not has_csi_driver(view.nodes[node], source.driver):
                continue
            there = view.attachments.get(attachment_name(source, node))
            if there is not None and is_attached(there) and not is_deleting(there):
                if _unique(volume) not in attached_names(view.nodes[node]):
                    yield f"node {node} does not report volume {name}"
            elif is_single_node(volume) and elsewhere - {node}:
                continue  # it waits for the other node
            elif not is_deleting(volume) and ATTACH_ERROR not in annotations_of(view.nodes[node]):
                yield f"volume {name} is not attached to {node}"


def superfluous(cluster: SimulatedCluster) -> Iterator[str]:
    """Yield a text for each volume that is attached to a node which no longer needs it.

    A volume that a deleted or unready node may still use is included, because it is detached after 6 minutes.

    As upstream, a restarted controller ignores a VolumeAttachment if its volume no longer exists, or if its CSI driver
    does not require attachment because the CSIDriver object was created later. So such a volume is included only while
    a running controller will reconcile it: one that has requested or recovered the attachment detaches it. It does so
    too, as upstream, if a recovered VolumeAttachment has been deleted in the meantime.
    """
    view, pending = _View(cluster), _pending(cluster)

    def has_attachment(unique: str) -> bool:
        known = view.attachments.values()
        return any(name_of(attachment) == attachment_of(unique, attachment["spec"]["nodeName"]) for attachment in known)

    for attachment in view.attachments.values():
        source, name = attached_volume(attachment), attachment["spec"]["nodeName"]
        volume, node = view.volumes.get(source), view.nodes.get(name)
        if volume is None or not view.is_attachable(volume):
            is_used = volume is None and name in view.named.get(source, ())
            if not is_used and any(name_of(attachment) == attachment_of(unique, name) for unique in pending):
                yield f"volume {source} is still attached to {name}"
            continue
        if name in view.needed.get(source, ()):
            continue
        if node is not None and _unique(volume) in in_use_names(node):
            if not has_out_of_service_taint(node) and not _is_lost(node):
                continue
        yield f"volume {source} is still attached to {name}"
    needed = {_unique(view.volumes[name]) for name in view.needed}
    for unique in pending:
        if unique not in needed and not has_attachment(unique):
            yield f"the controller has yet to detach {unique}"


def _pending(cluster: SimulatedCluster) -> list[str]:
    """Return the unique names of the volumes that running controllers will reconcile without a further event."""
    controllers = [
        cluster.world.actor(running.system.actors, controller_name(SPEC.name))
        for running in cluster.processes.values()
        if running.process.alive
    ]
    return [
        entry.key
        for controller in controllers
        if isinstance(controller, Controller)
        for entry in controller.pending()
        if entry.queue == VOLUME_QUEUE
    ]


def _is_lost(node: Object) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] != "True" for condition in conditions)


def _on(view: _View, node: Object) -> list[Object]:
    return [attachment for attachment in view.attachments.values() if attachment["spec"]["nodeName"] == name_of(node)]


def _unique(volume: Object | None) -> str:
    source = None if volume is None else csi_source(volume)
    return "" if source is None else source.unique_name


TRIAL = Trial(
    controller=SPEC.name,
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda cluster, _options: (AttachedWhereAllowed(), DetachedWhenUnused(cluster)),
    deletes=(VOLUME_ATTACHMENTS,),
)
