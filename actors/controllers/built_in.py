"""The built-in controllers, in upstream's start order.

Names, flags, --help, /configz and metrics derive from these specs.

A controller is a file or a folder in its domain; the file, or the folder's __init__.py, exports SPEC. A single file
contains reconciler, options, checks, metrics and spec. In a folder, reconciler.py contains the reconciler, options.py
the flags, spec.py the spec and the checks between flags, and metrics.py (or spec.py) the metrics; other files are named
after what they contain. Code that several controllers use is in shared/.

Parsing flags imports these modules, so no controller may import the HTTP client, the API server or another heavy
library (tests/test_imports.py).
"""

from __future__ import annotations

from kcm.actors.controllers.apimachinery import (
    garbage_collector,
    namespace,
    resourcequota,
    storageversiongc,
    storageversionmigrator,
    validatingadmissionpolicystatus,
)
from kcm.actors.controllers.bootstrap import signer, token_cleaner
from kcm.actors.controllers.certificates import approver, pod_request_cleaner, request_cleaner, signing
from kcm.actors.controllers.cloud import cloud_node_lifecycle, node_route, service_lb
from kcm.actors.controllers.devices import device_taint_eviction, resource_claim, resource_pool_status
from kcm.actors.controllers.identity import (
    clusterrole_aggregation,
    legacy_token_cleaner,
    root_ca_publisher,
    service_accounts,
    tokens,
    trust_bundle_publisher,
)
from kcm.actors.controllers.network import endpoints, endpointslice, endpointslice_mirroring, service_cidr
from kcm.actors.controllers.nodes import node_ipam, node_lifecycle, pod_garbage_collector, taint_eviction, ttl
from kcm.actors.controllers.storage import (
    attach_detach,
    attributes_class_protection,
    claim_protection,
    ephemeral_volume,
    persistentvolume_binder,
    persistentvolume_expander,
    selinux_warning,
    volume_protection,
)
from kcm.actors.controllers.workloads import (
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
from kcm.actors.reconciliation.specs import ControllerSpec

BUILT_IN: tuple[ControllerSpec, ...] = (
    tokens.SPEC,
    endpoints.SPEC,
    endpointslice.SPEC,
    endpointslice_mirroring.SPEC,
    replicationcontroller.SPEC,
    pod_garbage_collector.SPEC,
    resourcequota.SPEC,
    namespace.SPEC,
    service_accounts.SPEC,
    garbage_collector.SPEC,
    daemonset.SPEC,
    job.SPEC,
    podgroup_protection.SPEC,
    deployment.SPEC,
    replicaset.SPEC,
    horizontal_pod_autoscaler.SPEC,
    disruption.SPEC,
    statefulset.SPEC,
    cronjob.SPEC,
    signing.SPEC,
    approver.SPEC,
    request_cleaner.SPEC,
    pod_request_cleaner.SPEC,
    ttl.SPEC,
    signer.SPEC,
    token_cleaner.SPEC,
    node_ipam.SPEC,
    node_lifecycle.SPEC,
    taint_eviction.SPEC,
    device_taint_eviction.SPEC,
    service_lb.SPEC,
    node_route.SPEC,
    cloud_node_lifecycle.SPEC,
    persistentvolume_binder.SPEC,
    attach_detach.SPEC,
    persistentvolume_expander.SPEC,
    clusterrole_aggregation.SPEC,
    claim_protection.SPEC,
    volume_protection.SPEC,
    attributes_class_protection.SPEC,
    ttl_after_finished.SPEC,
    root_ca_publisher.SPEC,
    trust_bundle_publisher.SPEC,
    ephemeral_volume.SPEC,
    storageversiongc.SPEC,
    resource_claim.SPEC,
    resource_pool_status.SPEC,
    legacy_token_cleaner.SPEC,
    validatingadmissionpolicystatus.SPEC,
    service_cidr.SPEC,
    storageversionmigrator.SPEC,
    selinux_warning.SPEC,
)
