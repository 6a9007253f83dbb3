"""Settings of seeded runs, one for each domain. settings.py combines them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from kcm.actors.app.arguments import read_options
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
from kcm.actors.controllers.cloud import cloud_node_lifecycle, node_route
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
    disruption,
    horizontal_pod_autoscaler,
    job,
    podgroup_protection,
    statefulset,
    ttl_after_finished,
)
from kcm.actors.options import Options
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.combined_settings import switched_on_by_name
from kcm.actors.simulation.campaign.setting import WORKLOADS, Setting
from kcm.actors.simulation.trials.apimachinery.storageversionmigrator import serve_migrations
from kcm.actors.simulation.trials.certificates.keys import authority_files, reset
from kcm.actors.simulation.trials.certificates.requesters import authorize
from kcm.actors.simulation.trials.hollow import devices
from kcm.actors.simulation.trials.identity.key import key_file
from kcm.actors.simulation.trials.nodes.taints import SOON, tolerations
from kcm.actors.simulation.trials.scenario import Fleet
from kcm.runtime.apiserver.kinds.resource import (
    device_class,
    device_taint_rule,
    resource_pool_status_request,
    resource_slice,
)
from kcm.runtime.apiserver.kinds.scheduling import pod_group, workload
from kcm.runtime.faults.vocabulary import OF_CALLS, Fault, FaultKind
from kcm.runtime.simulation.plan import ON_REQUEST, draw_plan

CACHED_COMMAND_LINES = 256  # a setting has only a few


@lru_cache(maxsize=CACHED_COMMAND_LINES)
def flags(*arguments: str) -> Options:
    """Parse flags of run-kcm into the options of managers. The result is cached for all runs."""
    return read_options(arguments)


# Nodes that fail, with workloads, the garbage collector, all node controllers and a cloud.

NODE_CONTROLLERS = (
    pod_garbage_collector.SPEC,
    ttl.SPEC,
    node_ipam.SPEC,
    node_lifecycle.SPEC,
    taint_eviction.SPEC,
    node_route.SPEC,
    cloud_node_lifecycle.SPEC,
)
# Nodes are marked unreachable, and zones are evicted, sooner than by default, so that a run does not take an hour.
NODE_FLAGS = (
    "--cloud-provider=fake",
    "--allocate-node-cidrs=true",
    "--cluster-cidr=10.244.0.0/20",
    "--node-monitor-grace-period=20s",
    "--node-startup-grace-period=30s",
    "--node-eviction-rate=0.2",
    "--secondary-node-eviction-rate=0.05",
    "--terminated-pod-gc-threshold=3",
)
LARGE_ZONES = ("--large-cluster-size-threshold=3", "--large-cluster-size-threshold=50")
NODES, ZONES = (7, 8, 9), (2, 2, 3)  # a zone of three nodes or more can be partially disrupted
NODE_FAULTS = (FaultKind.NODE_SILENT, FaultKind.NODE_FLAPPING, FaultKind.ZONE_SILENT)
# Faults of nodes and of calls are listed twice, and so are drawn twice as often.
NODE_PLAN_KINDS = (*(kind for kind in FaultKind if kind not in ON_REQUEST), *NODE_FAULTS, *OF_CALLS)


def _node_options(scenario: int) -> Options:
    large = LARGE_ZONES[scenario // 2 % len(LARGE_ZONES)]
    return flags(*NODE_FLAGS, large)


def _node_fleet(scenario: int) -> Fleet:
    chance = random.Random(f"fleet {scenario}")
    return Fleet(nodes=chance.choice(NODES), zones=chance.choice(ZONES))


def _tolerating_pod(scenario: int) -> Mapping[str, Any]:
    """Return fields for pod specs, with tolerations of unready nodes and of maintenance that end after some seconds."""
    chance = random.Random(f"tolerations {scenario}")
    return {"tolerations": tolerations(chance.choice(SOON), maintenance=chance.choice(SOON))}


def draw_node_plan(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Draw a fault plan in which faults of nodes and of external calls are twice as likely as other faults.

    A zone fault may silence one zone or all zones together.
    """
    return draw_plan(
        seed,
        seconds=seconds,
        process=process,
        actors=actors,
        nodes=[f"hollow-node-{number}" for number in range(8)],
        zones=("zone-a", "zone-b", "zone-*"),
        kinds=NODE_PLAN_KINDS,
    )


NODES_SETTING = Setting(
    name="nodes",
    controllers=(*WORKLOADS, garbage_collector.SPEC, *NODE_CONTROLLERS),
    options=_node_options,
    fleet=_node_fleet,
    pod=_tolerating_pod,
    cloud=True,
    steady=False,
    acting=50.0,
    faults=100.0,
    settled=400.0,  # a cloud call without an outcome times out after 120 s
    draw=draw_node_plan,
)

# Services, and the controllers that publish the addresses of their pods.

SERVICE_CONTROLLERS = (endpoints.SPEC, endpointslice.SPEC, endpointslice_mirroring.SPEC)
# Small slices, so that a Service needs several of them; in every third scenario changes of pods are batched.
SERVICE_FLAGS = (
    ["--max-endpoints-per-slice=2"],
    ["--max-endpoints-per-slice=3"],
    ["--endpointslice-updates-batch-period=500ms", "--endpoint-updates-batch-period=500ms"],
)
SERVICES_SETTING = Setting(
    name="services",
    controllers=(*WORKLOADS, *SERVICE_CONTROLLERS),
    options=lambda scenario: flags(*SERVICE_FLAGS[scenario % len(SERVICE_FLAGS)]),
)

# ServiceCIDRs, and the cluster IPs of Services without pods.
SERVICE_RANGES_SETTING = Setting(name="service-ranges", controllers=(service_cidr.SPEC,))

# API machinery: garbage collection, namespaces, quotas.

GARBAGE_SETTING = Setting(name="garbage", controllers=(*WORKLOADS, garbage_collector.SPEC))
# The two controllers share their tables.
NAMESPACES_SETTING = Setting(name="namespaces", controllers=(namespace.SPEC, garbage_collector.SPEC))
# Period of the full recalculation, by scenario: the default (5 min), 5 s, or never.
QUOTA_FLAGS: tuple[list[str], ...] = ([], ["--resource-quota-sync-period=5s"], ["--resource-quota-sync-period=0"])
QUOTAS_SETTING = Setting(
    name="quotas",
    controllers=(*WORKLOADS, resourcequota.SPEC, garbage_collector.SPEC),
    options=lambda scenario: flags(*QUOTA_FLAGS[scenario % len(QUOTA_FLAGS)]),
)

# Type checks of admission policies.

POLICIES_SETTING = Setting(name="policies", controllers=(validatingadmissionpolicystatus.SPEC,))

# Versions of stored objects.

MIGRATIONS_SETTING = Setting(
    name="migrations",
    controllers=(garbage_collector.SPEC, storageversionmigrator.SPEC),
    options=lambda _scenario: flags("--feature-gates=StorageVersionMigrator=true"),
    prepare=serve_migrations,
    settled=400.0,  # a table may reach the checkpoint of its migration only by a bookmark
)

STORAGE_VERSIONS_SETTING = Setting(
    name="storage-versions",
    controllers=(storageversiongc.SPEC,),
    options=lambda _scenario: flags("--feature-gates=APIServerIdentity=true,StorageVersionAPI=true"),
    prepare=serve_migrations,
)

# Service accounts, their tokens, and the bundles of certificates that clients trust.

ACCOUNTS_SETTING = Setting(
    name="accounts",
    controllers=(
        *WORKLOADS,
        tokens.SPEC,
        service_accounts.SPEC,
        root_ca_publisher.SPEC,
        trust_bundle_publisher.SPEC,
        legacy_token_cleaner.SPEC,
    ),
    # With this period a legacy token may be deleted as soon as it is unused.
    options=lambda _scenario: flags(
        f"--service-account-private-key-file={key_file()}",
        "--legacy-service-account-token-clean-up-period=1ms",
        "--feature-gates=ClusterTrustBundle=true",
    ),
)
ROLES_SETTING = Setting(name="roles", controllers=(clusterrole_aggregation.SPEC,))

# Certificate signing requests.


def _certificate_options(_scenario: int) -> Options:
    files = authority_files()
    return flags(f"--cluster-signing-cert-file={files.certificate}", f"--cluster-signing-key-file={files.key}")


def _prepare_certificates(cluster: SimulatedCluster) -> None:
    cluster.authorize = authorize
    reset()


CERTIFICATES_SETTING = Setting(
    name="certificates",
    controllers=(signing.SPEC, approver.SPEC, request_cleaner.SPEC),
    options=_certificate_options,
    prepare=_prepare_certificates,
    calls=True,
)
# Not part of `everything`: a request lives for a quarter of an hour, and all other trials would have to wait for that.
POD_CERTIFICATES_SETTING = Setting(
    name="pod-certificates",
    controllers=(pod_request_cleaner.SPEC,),
    options=lambda _scenario: flags("--feature-gates=PodCertificateRequest=true"),
    settled=2000.0,
)

# Bootstrap tokens. Their controllers are off by default.

BOOTSTRAP_CONTROLLERS = (signer.SPEC, token_cleaner.SPEC)
# One list for all settings: of combined settings, only the last value of --controllers takes effect.
OFF_BY_DEFAULT = (*BOOTSTRAP_CONTROLLERS, selinux_warning.SPEC)
BOOTSTRAP_SETTING = Setting(
    name="bootstrap",
    controllers=BOOTSTRAP_CONTROLLERS,
    options=lambda _scenario: flags(switched_on_by_name(OFF_BY_DEFAULT)),
)

# Volumes, their claims, and the pods that use them.

VOLUMES_SETTING = Setting(
    name="volumes",
    controllers=(
        persistentvolume_binder.SPEC,
        claim_protection.SPEC,
        volume_protection.SPEC,
        attributes_class_protection.SPEC,
        ephemeral_volume.SPEC,
        persistentvolume_expander.SPEC,
        selinux_warning.SPEC,
    ),
    options=lambda _scenario: flags(switched_on_by_name(OFF_BY_DEFAULT)),
)

# Devices that pods claim.

CLAIMS_SETTING = Setting(name="claims", controllers=(resource_claim.SPEC, garbage_collector.SPEC))

DEVICES_SETTING = Setting(
    name="devices",
    controllers=(resource_claim.SPEC, garbage_collector.SPEC),
    trials=(devices.TRIAL,),
    devices=True,
    prepare=lambda cluster: cluster.serve(device_class.RESOURCE, resource_slice.RESOURCE),
)

# Volumes that are attached to nodes, which fail. A volume that a lost node may still use is detached after 360 s. An
# attachment by a CSI driver that does not run times out after 120 s, possibly several times, before it is detached.
DETACHED = 900.0  # seconds
# Nodes are marked unreachable sooner than by default.
ATTACHMENTS_SETTING = Setting(
    name="attachments",
    controllers=(
        persistentvolume_binder.SPEC,
        attach_detach.SPEC,
        claim_protection.SPEC,
        volume_protection.SPEC,
        statefulset.SPEC,
        pod_garbage_collector.SPEC,
        node_lifecycle.SPEC,
        taint_eviction.SPEC,
    ),
    options=lambda _scenario: flags(
        "--node-monitor-grace-period=20s", "--node-startup-grace-period=30s", "--node-eviction-rate=0.2"
    ),
    fleet=lambda _scenario: Fleet(nodes=5, zones=2),
    pod=_tolerating_pod,
    steady=False,
    acting=50.0,
    faults=100.0,
    settled=DETACHED,
)


def _serve_taint_rules(cluster: SimulatedCluster) -> None:
    cluster.serve(device_taint_rule.RESOURCE, resource_pool_status_request.RESOURCE)
    cluster.restart_server()


DEVICE_TAINTS_SETTING = Setting(
    name="device-taints",
    controllers=(device_taint_eviction.SPEC, resource_pool_status.SPEC),
    options=lambda _scenario: flags("--feature-gates=DRADeviceTaintRules=true,DRAResourcePoolStatus=true"),
    prepare=_serve_taint_rules,
)

# Workloads beyond those of `workloads`. The garbage collector deletes the dependents of deleted owners.

STATEFUL_SETTING = Setting(name="stateful", controllers=(statefulset.SPEC, garbage_collector.SPEC))
DAEMONS_SETTING = Setting(
    name="daemons",
    controllers=(daemonset.SPEC,),
    fleet=lambda scenario: Fleet(nodes=(2, 3, 5, 7)[scenario % 4], zones=2),
)
BUDGETS_SETTING = Setting(name="budgets", controllers=(*WORKLOADS, disruption.SPEC))
FINISHED_SETTING = Setting(name="finished", controllers=(ttl_after_finished.SPEC,))
AUTOSCALERS_SETTING = Setting(
    name="autoscalers",
    controllers=(*WORKLOADS, horizontal_pod_autoscaler.SPEC),
    # Without `behavior`, scaling down is stabilized for less time than a run lasts.
    options=lambda _scenario: flags("--horizontal-pod-autoscaler-downscale-stabilization=40s"),
    settled=400.0,  # from 7 replicas down to 1, one in 45 s
)


def _job_options(scenario: int) -> Options | None:
    """Return options that enable PodGroups and gang scheduling of Jobs in scenarios with an odd number; else None."""
    if scenario % 2 == 0:
        return None
    return flags("--feature-gates=GenericWorkload=true,WorkloadWithJob=true")


def _serve_workloads(cluster: SimulatedCluster) -> None:
    cluster.serve(workload.RESOURCE, pod_group.RESOURCE)
    cluster.restart_server()


JOBS_SETTING = Setting(
    name="jobs",
    controllers=(job.SPEC, podgroup_protection.SPEC, garbage_collector.SPEC),
    options=_job_options,
    prepare=_serve_workloads,
)
CRON_START = 42.0  # seconds into a minute at which a run begins: the next minute begins while faults are active


def _start_within_a_minute(cluster: SimulatedCluster) -> None:
    cluster.clock.skew += CRON_START


CRON_JOBS_SETTING = Setting(name="cron-jobs", controllers=(cronjob.SPEC,), prepare=_start_within_a_minute)
# Several minutes begin while faults are active.
CRON_JOBS_FOR_LONG = replace(CRON_JOBS_SETTING, name="cron-jobs-for-long", acting=150.0, faults=170.0)
