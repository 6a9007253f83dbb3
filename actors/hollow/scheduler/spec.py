"""Spec of the hollow scheduler."""

from __future__ import annotations

from kcm.actors.controllers.storage.persistentvolume_binder.matching import (
    UNCLAIMED_VOLUMES,
    VOLUME_FACTS,
    VOLUMES_BY_CLAIM,
)
from kcm.actors.controllers.storage.persistentvolume_binder.spec import CLAIM_FACTS
from kcm.actors.controllers.storage.shared.pods_by_claim import PODS_BY_CLAIM
from kcm.actors.hollow.attacher import ATTACHMENTS_BY_NODE
from kcm.actors.hollow.intervals import MANY
from kcm.actors.hollow.scheduler.devices.claim_facts import CLAIMS_BY_DEVICE, PODS_BY_DEVICE_CLAIM, PODS_BY_GROUP
from kcm.actors.hollow.scheduler.devices.claims import PodDevices
from kcm.actors.hollow.scheduler.preemptor import Preemptor
from kcm.actors.hollow.scheduler.reconciler import SCHEDULER_NAME, HollowScheduler
from kcm.actors.hollow.scheduler.volumes import PodVolumes
from kcm.actors.hollow.scheduler.watches import (
    PRIORITY_OF_UNASSIGNED,
    device_watches,
    scheduler_watches,
    scheduling_priority,
    volume_watches,
)
from kcm.actors.reconciliation.derived import PODS_BY_NODE
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.protocols.resources import NAMESPACES, POD_DISRUPTION_BUDGETS, Resource

CLIENT = "hollow-scheduler"


def scheduler_spec(
    *, volumes: bool = True, devices: bool = False, taint_rules: Resource | None = None, groups: bool = False
) -> ControllerSpec:
    """Return the spec of the hollow scheduler.

    volumes: let pods wait for their claims, and select nodes for claims that wait for a pod. Otherwise claims and
        volumes are not watched.
    devices: allocate ResourceClaims of pods. Otherwise claims, slices and classes are not watched.
    taint_rules: the resource of DeviceTaintRules, if they taint the allocated devices.
    groups: ResourceClaims can belong to PodGroups. Otherwise PodGroups are not watched.
    """
    return ControllerSpec(
        name="hollow-scheduler-controller",
        never_blocks=True,
        client=CLIENT,
        component=SCHEDULER_NAME,
        queues=(
            Queue(
                watches=(
                    *scheduler_watches(),
                    *(volume_watches() if volumes else ()),
                    *(device_watches(taint_rules, groups=groups) if devices else ()),
                ),
                concurrency=MANY,
                priority_of=scheduling_priority,
                terminal=(),
            ),
        ),
        reads=(POD_DISRUPTION_BUDGETS, NAMESPACES),
        indexes=(
            PODS_BY_NODE,
            PRIORITY_OF_UNASSIGNED,
            *((PODS_BY_CLAIM, VOLUMES_BY_CLAIM, UNCLAIMED_VOLUMES, ATTACHMENTS_BY_NODE) if volumes else ()),
            *((PODS_BY_DEVICE_CLAIM, CLAIMS_BY_DEVICE, PODS_BY_GROUP) if devices else ()),
        ),
        facts=(VOLUME_FACTS, CLAIM_FACTS) if volumes else (),
        build=lambda context: HollowScheduler(
            tables=context.tables,
            clock=context.clock,
            volumes=PodVolumes(context.tables) if volumes else None,
            devices=PodDevices(context.tables, context.clock, rules=taint_rules, groups=groups) if devices else None,
            preemptor=Preemptor(context.tables, context.clock),
        ),
    )
