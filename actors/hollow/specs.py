"""Specs of the controllers that run the embedded cluster's pods."""

from __future__ import annotations

from collections.abc import Mapping

from kcm.actors.hollow import provisioner, resizer
from kcm.actors.hollow.attacher import attacher_spec
from kcm.actors.hollow.devices import devices_spec
from kcm.actors.hollow.kubelet.expansion import expansion_spec
from kcm.actors.hollow.kubelet.reconciler import kubelet_spec
from kcm.actors.hollow.nodes.fleet import HollowNode, make_fleet
from kcm.actors.hollow.nodes.reconciler import LEASE_INTERVAL, nodes_spec
from kcm.actors.hollow.scheduler.spec import scheduler_spec
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.protocols.resources import Resource


def hollow_specs(
    *,
    nodes: int,
    zones: int,
    cpu: str = "32",
    memory: str = "128Gi",
    pods_per_node: int = 110,
    heartbeat: float = LEASE_INTERVAL,
    volumes: bool = False,
    attach: bool = False,
    devices: bool = False,
) -> tuple[ControllerSpec, ...]:
    """Return the controllers of a hollow cluster with new nodes. Raises ValueError as make_fleet.

    nodes, zones: --hollow-nodes, --hollow-zones.
    cpu, memory: quantities of each node.
    heartbeat: seconds between two heartbeats of a node.
    volumes, attach, devices: see specs_of.
    """
    return specs_of(
        make_fleet(nodes=nodes, zones=zones, cpu=cpu, memory=memory, pods=pods_per_node),
        heartbeat=heartbeat,
        volumes=volumes,
        attach=attach,
        devices=devices,
    )


def specs_of(
    fleet: Mapping[str, HollowNode],
    *,
    heartbeat: float = LEASE_INTERVAL,
    volumes: bool = False,
    attach: bool = False,
    devices: bool = False,
    taint_rules: Resource | None = None,
    groups: bool = False,
) -> tuple[ControllerSpec, ...]:
    """Return the controllers for these nodes.

    volumes: provision and expand volumes, and let pods wait for their claims.
    attach: let pods also wait until their volumes are attached, for clusters with an attach-detach controller.
    devices: publish the devices of nodes, allocate them to ResourceClaims, and let pods wait for their claims.
    taint_rules: the resource of DeviceTaintRules, for servers with them.
    groups: ResourceClaims can belong to PodGroups, for servers with these.
    """
    nodes = (
        nodes_spec(fleet, heartbeat=heartbeat),
        kubelet_spec(fleet, volumes=volumes, devices=devices),
        scheduler_spec(volumes=volumes, devices=devices, taint_rules=taint_rules, groups=groups),
    )
    of_volumes = (provisioner.SPEC, attacher_spec(attach=attach), resizer.SPEC, expansion_spec(fleet))
    return (*nodes, *(of_volumes if volumes else ()), *((devices_spec(fleet),) if devices else ()))
