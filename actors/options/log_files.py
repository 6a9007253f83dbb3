"""Names of upstream's source files with log calls, which patterns of --vmodule may name; see runtime/logs/vmodule.py.

Source: kubernetes v1.36, pkg/controller, and the client-go and component packages of kube-controller-manager. A file
that several controllers share is listed for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping

LOG_FILES: Mapping[str, tuple[str, ...]] = {
    source: tuple(files.split())
    for source, _, files in (
        line.strip().partition(": ")
        for line in """
        bootstrap-signer-controller: bootstrapsigner util
        certificatesigningrequest-approving-controller: certificate_controller sarapprove
        certificatesigningrequest-cleaner-controller: cleaner
        certificatesigningrequest-signing-controller: certificate_controller signer
        clusterrole-aggregation-controller: clusterroleaggregation_controller
        controller-manager: controllermanager controller_descriptor
        cronjob-controller: cronjob_controllerv2 utils
        daemonset-controller: daemon_controller update
        deployment-controller: deployment_controller progress rollback rolling sync
        dispatcher: request client
        disruption-controller: disruption
        elector: leaderelection leaselock
        endpoints-controller: endpoints_controller
        endpointslice-controller: endpointslice_controller reconciler utils
        device-taint-eviction-controller: device_taint_eviction
        endpointslice-mirroring-controller: endpointslicemirroring_controller reconciler
        event-recorder: event
        garbage-collector-controller: garbagecollector graph_builder operations
        ephemeral-volume-controller: controller
        horizontal-pod-autoscaler-controller: horizontal
        informer: reflector shared_informer
        job-controller: indexed_job_utils job_controller job_scheduling_manager tracking_utils
        kcm: controllermanager flags serving secure_serving
        kube-apiserver-serving-clustertrustbundle-publisher-controller: publisher
        legacy-serviceaccount-token-cleaner-controller: legacy_serviceaccount_token_cleaner
        namespace-controller: namespace_controller namespaced_resources_deleter
        node-ipam-controller: cidr_allocator range_allocator
        node-lifecycle-controller: node_lifecycle_controller
        persistentvolume-attach-detach-controller: attach_detach_controller operation_generator reconciler util
        persistentvolume-binder-controller: pv_controller pv_controller_base
        persistentvolume-expander-controller: expand_controller operation_generator
        persistentvolume-protection-controller: pv_protection_controller
        persistentvolumeclaim-protection-controller: pvc_protection_controller
        pod-garbage-collector-controller: gc_controller
        podgroup-protection-controller: podgroup_protection_controller
        podcertificaterequest-cleaner-controller: pcrcleaner
        replicaset-controller: replica_set replica_set_utils
        replicationcontroller-controller: replica_set replica_set_utils
        resourcequota-controller: resource_quota_controller resource_quota_monitor
        resourceclaim-controller: controller
        resourcepoolstatusrequest-controller: controller
        root-ca-certificate-publisher-controller: publisher
        service-cidr-controller: servicecidrs_controller
        selinux-warning-controller: metrics selinux_warning_controller volumecache
        serviceaccount-controller: serviceaccounts_controller
        serviceaccount-token-controller: tokens_controller
        statefulset-controller: stateful_pod_control stateful_set stateful_set_control stateful_set_utils
        taint-eviction-controller: taint_eviction timed_workers
        token-cleaner-controller: tokencleaner
        ttl-after-finished-controller: ttlafterfinished_controller
        ttl-controller: ttl_controller
        storageversion-garbage-collector-controller: gc_controller
        storage-version-migrator-controller: storageversionmigrator resourceversion migrationrunner
        validatingadmissionpolicy-status-controller: typechecking
        volumeattributesclass-protection-controller: vac_protection_controller
        """.strip().splitlines()
    )
}
