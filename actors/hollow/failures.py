"""Hollow nodes that fail, from code: the same annotations that users set with kubectl (behaviour.py).

    silence(cluster, *nodes_of_zone(cluster, "zone-a"))
    cluster.run_for(120)
    recover(cluster, *nodes_of_zone(cluster, "zone-a"))

cluster: a SimulatedCluster, or whatever else lists and merges as it does. In the simulator faults of the machinery
itself (crashes, lost requests, partitions) come from the fault plan instead, see runtime/faults/vocabulary.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kcm.actors.hollow.behaviour import FLAP, HEARTBEAT, READY, SILENT, TERMINATE_AFTER
from kcm.protocols.objects import Key, Object, labels_of, name_of
from kcm.protocols.resources import NODES, Resource

ZONE = "topology.kubernetes.io/zone"


class Cluster(Protocol):
    def list(self, resource: Resource, namespace: str = "") -> list[Object]: ...

    def merge(self, resource: Resource, key: Key, changes: Mapping[str, Any]) -> Object: ...


def nodes_of_zone(cluster: Cluster, zone: str) -> list[str]:
    """The names of a zone's nodes, in order."""
    return sorted(name_of(node) for node in cluster.list(NODES) if labels_of(node).get(ZONE) == zone)


def silence(cluster: Cluster, *names: str) -> None:
    """Their kubelets neither say nor do anything from now on."""
    _annotate(cluster, names, {SILENT: "true"})


def flap(cluster: Cluster, *names: str, seconds: float) -> None:
    """They are silent for so long and speak for as long, by turns."""
    _annotate(cluster, names, {FLAP: f"{seconds:g}"})


def lag(cluster: Cluster, *names: str, seconds: float) -> None:
    """Their heartbeats come so far apart."""
    _annotate(cluster, names, {HEARTBEAT: f"{seconds:g}"})


def fall_ill(cluster: Cluster, *names: str) -> None:
    """Their kubelets say that they are not ready."""
    _annotate(cluster, names, {READY: "false"})


def delete_slowly(cluster: Cluster, *names: str, seconds: float) -> None:
    """Their pods take so long to stop, as far as their grace periods allow."""
    _annotate(cluster, names, {TERMINATE_AFTER: f"{seconds:g}"})


def recover(cluster: Cluster, *names: str) -> None:
    """All of that is over."""
    _annotate(cluster, names, dict.fromkeys((SILENT, FLAP, HEARTBEAT, READY, TERMINATE_AFTER)))


def _annotate(cluster: Cluster, names: tuple[str, ...], annotations: Mapping[str, str | None]) -> None:
    for name in names:
        cluster.merge(NODES, name, {"metadata": {"annotations": annotations}})
