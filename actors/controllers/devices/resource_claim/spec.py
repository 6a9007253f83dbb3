"""ControllerSpec of the resource claim controller, and its flag.

Source: kubernetes v1.36 cmd/kube-controller-manager/app/resource.go, app/options/resourceclaimcontroller.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kcm.actors.controllers.devices.resource_claim.metrics import ResourceClaimMetrics
from kcm.actors.controllers.devices.resource_claim.reconciler import Features, ResourceClaimReconciler
from kcm.actors.controllers.devices.resource_claim.watches import QUEUE, Enqueuing
from kcm.actors.options import ControllerOptions, Options
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Facts, Queue
from kcm.protocols.resource_claims import resource_claim_facts
from kcm.protocols.resources import RESOURCE_CLAIMS
from kcm.runtime.flags.declaration import flag

GROUPS_GATE = "DRAWorkloadResourceClaims"


class ResourceClaimOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "ResourceClaimController"

    concurrent_syncs: int = flag(
        50, "Number of ResourceClaims that are synced concurrently.", name="concurrent-resourceclaim-syncs"
    )


def _workers_problem(options: Options) -> Iterator[str]:
    workers = options[ResourceClaimOptions].concurrent_syncs
    if workers < 1:
        yield f"concurrent-resourceclaim-syncs must be larger than 0, got {workers}"


def _build(context: ControllerContext) -> ResourceClaimReconciler:
    gates, tables = context.options.feature_gates, context.tables
    return ResourceClaimReconciler(
        tables=tables,
        features=Features(
            admin_access=gates["DRAAdminAccess"],
            prioritized_list=gates["DRAPrioritizedList"],
            groups=gates[GROUPS_GATE],
        ),
        metrics=ResourceClaimMetrics(context.metrics, tables[RESOURCE_CLAIMS]),
        log=context.log,
    )


def _with_groups(spec: ControllerSpec, options: Options) -> ControllerSpec:
    """Watch PodGroups if the feature gate is enabled. Otherwise the server may not serve them."""
    if not options.feature_gates[GROUPS_GATE]:
        return spec
    enqueuing = Enqueuing(groups=True)
    (queue,) = spec.queues
    return replace(spec, queues=(replace(queue, watches=enqueuing.watches),), indexes=enqueuing.indexes)


_ENQUEUING = Enqueuing()

SPEC = ControllerSpec(
    name="resourceclaim-controller",
    aliases=("resource-claim-controller",),
    never_blocks=True,
    client="resource-claim-controller",
    component="resource_claim",
    queues=(
        Queue(
            QUEUE,
            watches=_ENQUEUING.watches,
            concurrency=lambda options: options[ResourceClaimOptions].concurrent_syncs,
            terminal=(),
        ),
    ),
    indexes=_ENQUEUING.indexes,
    facts=(Facts(RESOURCE_CLAIMS, resource_claim_facts),),
    build=_build,
    adapted=_with_groups,
    options=ResourceClaimOptions,
    checks=(_workers_problem,),
)
