"""List of all trials, one per controller."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kcm.actors.simulation.trials.apimachinery import (
    garbage_collector,
    namespace,
    resourcequota,
    storageversiongc,
    storageversionmigrator,
    validatingadmissionpolicystatus,
)
from kcm.actors.simulation.trials.bootstrap import signer, token_cleaner
from kcm.actors.simulation.trials.certificates import approver, pod_request_cleaner, request_cleaner, signing
from kcm.actors.simulation.trials.cloud import cloud_node_lifecycle, node_route, service_lb
from kcm.actors.simulation.trials.devices import device_taint_eviction, resource_claim, resource_pool_status
from kcm.actors.simulation.trials.hollow import (
    attacher,
    devices,
    expansion,
    kubelet,
    nodes,
    provisioner,
    resizer,
    scheduler,
)
from kcm.actors.simulation.trials.identity import (
    clusterrole_aggregation,
    legacy_token_cleaner,
    root_ca_publisher,
    service_accounts,
    tokens,
    trust_bundle_publisher,
)
from kcm.actors.simulation.trials.network import endpoints, endpointslice, endpointslice_mirroring, service_cidr
from kcm.actors.simulation.trials.nodes import node_ipam, node_lifecycle, pod_garbage_collector, taint_eviction, ttl
from kcm.actors.simulation.trials.storage import (
    attach_detach,
    attributes_class_protection,
    claim_protection,
    ephemeral_volume,
    persistentvolume_binder,
    persistentvolume_expander,
    selinux_warning,
    volume_protection,
)
from kcm.actors.simulation.trials.trial import Trial
from kcm.actors.simulation.trials.workloads import (
    cronjob,
    daemonset,
    deployment,
    disruption,
    horizontal_pod_autoscaler,
    job,
    podgroup_protection,
    replicaset,
    replicationcontroller,
    statefulset,
    ttl_after_finished,
)

# Trials by controller, in the order in which they draw their actions and nodes. A change of this order changes the
# scenario of each seed.
TRIALS: Mapping[str, Trial] = MappingProxyType(
    {
        module.TRIAL.controller: module.TRIAL
        for module in (
            replicationcontroller,
            replicaset,
            deployment,
            endpointslice,
            endpoints,
            endpointslice_mirroring,
            node_lifecycle,
            pod_garbage_collector,
            ttl,
            node_ipam,
            taint_eviction,
            cloud_node_lifecycle,
            node_route,
            service_lb,
            garbage_collector,
            resourcequota,
            service_accounts,
            root_ca_publisher,
            tokens,
            legacy_token_cleaner,
            trust_bundle_publisher,
            disruption,
            namespace,
            ttl_after_finished,
            statefulset,
            daemonset,
            job,
            approver,
            signing,
            request_cleaner,
            pod_request_cleaner,
            signer,
            token_cleaner,
            clusterrole_aggregation,
            horizontal_pod_autoscaler,
            persistentvolume_binder,
            attach_detach,
            claim_protection,
            volume_protection,
            attributes_class_protection,
            cronjob,
            ephemeral_volume,
            validatingadmissionpolicystatus,
            service_cidr,
            persistentvolume_expander,
            selinux_warning,
            resource_claim,
            podgroup_protection,
            storageversionmigrator,
            storageversiongc,
            device_taint_eviction,
            resource_pool_status,
            nodes,
            kubelet,
            scheduler,
            provisioner,
            attacher,
            resizer,
            expansion,
            devices,
        )
    }
)
