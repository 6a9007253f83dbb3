"""All options, typed: one group of flags a field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from actors.options import general, infrastructure, workloads
from actors.options.diagnosis import Diagnosis
from actors.options.feature_gates import DEFAULTS
from runtime.flags.declaration import Flag, flags_of, group


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command was told. Options() is what it does when told nothing.

    feature_gates: every known gate → on or off. given: names of the flags that stood on the command line.
    warnings: lines for the log, about flags that do nothing.
    """

    debugging: general.Debugging = group(general.Debugging, "debugging", config="Generic.Debugging")
    leader_migration: general.LeaderMigration = group(general.LeaderMigration, "leader-migration", pending=True)
    generic: general.Generic = group(general.Generic, "generic", config="Generic")
    client_limits: general.ClientLimits = group(general.ClientLimits, "generic", config="Generic.ClientConnection")
    leader_election: general.LeaderElection = group(general.LeaderElection, "generic", config="Generic.LeaderElection")
    cloud: general.Cloud = group(general.Cloud, "generic", config="KubeCloudShared")
    secure_serving: general.SecureServing = group(general.SecureServing, "secure serving")
    plain_serving: general.PlainServing = group(general.PlainServing, "insecure serving")
    authentication: general.Authentication = group(general.Authentication, "authentication")
    authorization: general.Authorization = group(general.Authorization, "authorization")

    attach_detach: infrastructure.AttachDetach = group(
        infrastructure.AttachDetach,
        "persistentvolume-attach-detach-controller",
        pending=True,
        config="AttachDetachController",
    )
    certificate_signing: infrastructure.CertificateSigning = group(
        infrastructure.CertificateSigning,
        "certificatesigningrequest-signing-controller",
        pending=True,
        config="CSRSigningController",
    )
    cron_job: workloads.CronJob = group(
        workloads.CronJob, "cronjob-controller", pending=True, config="CronJobController"
    )
    daemon_set: workloads.DaemonSet = group(
        workloads.DaemonSet, "daemonset-controller", pending=True, config="DaemonSetController"
    )
    deployment: workloads.Deployment = group(
        workloads.Deployment, "deployment-controller", config="DeploymentController"
    )
    device_taint_eviction: infrastructure.DeviceTaintEviction = group(
        infrastructure.DeviceTaintEviction, "device-taint-eviction-controller", pending=True
    )
    endpoints: infrastructure.Endpoints = group(
        infrastructure.Endpoints, "endpoints-controller", pending=True, config="EndpointController"
    )
    endpoint_slice: infrastructure.EndpointSlice = group(
        infrastructure.EndpointSlice, "endpointslice-controller", pending=True, config="EndpointSliceController"
    )
    endpoint_slice_mirroring: infrastructure.EndpointSliceMirroring = group(
        infrastructure.EndpointSliceMirroring,
        "endpointslice-mirroring-controller",
        pending=True,
        config="EndpointSliceMirroringController",
    )
    ephemeral_volume: infrastructure.EphemeralVolume = group(
        infrastructure.EphemeralVolume, "ephemeral-volume-controller", pending=True, config="EphemeralVolumeController"
    )
    garbage_collector: infrastructure.GarbageCollector = group(
        infrastructure.GarbageCollector,
        "garbage-collector-controller",
        pending=True,
        config="GarbageCollectorController",
    )
    horizontal_pod_autoscaler: workloads.HorizontalPodAutoscaler = group(
        workloads.HorizontalPodAutoscaler,
        "horizontal-pod-autoscaler-controller",
        pending=True,
        config="HPAController",
    )
    job: workloads.Job = group(workloads.Job, "job-controller", pending=True, config="JobController")
    legacy_token_cleaner: infrastructure.LegacyTokenCleaner = group(
        infrastructure.LegacyTokenCleaner,
        "legacy-serviceaccount-token-cleaner-controller",
        pending=True,
        config="LegacySATokenCleaner",
    )
    namespace: infrastructure.Namespace = group(
        infrastructure.Namespace, "namespace-controller", pending=True, config="NamespaceController"
    )
    node_ipam: infrastructure.NodeIpam = group(
        infrastructure.NodeIpam, "node-ipam-controller", config="NodeIPAMController"
    )
    node_lifecycle: infrastructure.NodeLifecycle = group(
        infrastructure.NodeLifecycle, "node-lifecycle-controller", config="NodeLifecycleController"
    )
    persistent_volume_binder: infrastructure.PersistentVolumeBinder = group(
        infrastructure.PersistentVolumeBinder,
        "persistentvolume-binder-controller",
        pending=True,
        config="PersistentVolumeBinderController",
    )
    pod_garbage_collector: workloads.PodGarbageCollector = group(
        workloads.PodGarbageCollector, "pod-garbage-collector-controller", config="PodGCController"
    )
    replica_set: workloads.ReplicaSet = group(
        workloads.ReplicaSet, "replicaset-controller", config="ReplicaSetController"
    )
    replication: workloads.Replication = group(
        workloads.Replication, "replicationcontroller-controller", config="ReplicationController"
    )
    resource_claim: workloads.ResourceClaim = group(workloads.ResourceClaim, "resourceclaim-controller", pending=True)
    resource_quota: infrastructure.ResourceQuota = group(
        infrastructure.ResourceQuota, "resourcequota-controller", pending=True, config="ResourceQuotaController"
    )
    service_account: infrastructure.ServiceAccount = group(
        infrastructure.ServiceAccount, "serviceaccount-controller", pending=True, config="SAController"
    )
    service_load_balancer: infrastructure.ServiceLoadBalancer = group(
        infrastructure.ServiceLoadBalancer, "service-lb-controller", pending=True, config="ServiceController"
    )
    stateful_set: workloads.StatefulSet = group(
        workloads.StatefulSet, "statefulset-controller", pending=True, config="StatefulSetController"
    )
    ttl_after_finished: workloads.TtlAfterFinished = group(
        workloads.TtlAfterFinished,
        "ttl-after-finished-controller",
        pending=True,
        config="TTLAfterFinishedController",
    )
    validating_admission_policy_status: infrastructure.ValidatingAdmissionPolicyStatus = group(
        infrastructure.ValidatingAdmissionPolicyStatus,
        "validatingadmissionpolicy-status-controller",
        pending=True,
        config="ValidatingAdmissionPolicyStatusController",
    )

    metrics: general.MetricsOptions = group(general.MetricsOptions, "metrics", pending=True)
    logging: general.Logging = group(general.Logging, "logs")
    client: general.Client = group(general.Client, "misc", config="Generic.ClientConnection")
    embedded: general.Embedded = group(general.Embedded, "embedded cluster")
    diagnosis: Diagnosis = group(Diagnosis, "diagnosis")
    retired: general.Retired = group(general.Retired, "retired")
    process: general.Process = group(general.Process, "global")

    feature_gates: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType(dict(DEFAULTS)))
    given: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    @property
    def plain_http(self) -> tuple[str, int] | None:
        """Address and port to serve plain HTTP on; None: not at all."""
        if not self.given & {"address", "port"} or self.plain_serving.port == 0:
            return None
        return self.plain_serving.address, self.plain_serving.port

    @property
    def embeds_cluster(self) -> bool:
        """Neither a kubeconfig nor a server was named. (A pod's credentials, seen elsewhere, count as well.)"""
        return not self.client.kubeconfig and not self.client.master


FLAGS: tuple[Flag, ...] = flags_of(Options)
