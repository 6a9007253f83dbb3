"""Catalogue of causes: each code with its meaning, what shows it, and a command to look or to act.

docs/why.md has this table; a test compares them. The commands may contain {kind}, {name}, {namespace} (" -n shop", or
"" for a cluster-scoped object) and {controller}.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class CauseKind(Struct, frozen=True):
    """Kind of cause.

    code: stable, for programs.
    domain: heading in the table.
    meaning: what is the case.
    shown_by: the evidence.
    command: to look or to act.
    """

    code: str
    domain: str
    meaning: str
    shown_by: str
    command: str = ""


ENDING = frozenset({"not-available-yet"})  # codes of waits that end by themselves
DESCRIBE = "kubectl describe {kind} {name}{namespace}"
EDIT = "kubectl edit {kind} {name}{namespace}"
HEALTH = "run-kcm ctl get {controller}"


def _domain(domain: str, *rows: tuple[str, str, str, str]) -> Iterable[CauseKind]:
    return (CauseKind(code, domain, meaning, shown_by, command) for code, meaning, shown_by, command in rows)


CAUSES: tuple[CauseKind, ...] = (
    *_domain(
        "The manager",
        ("api-server-unreachable", "the API server does not respond", "a failed read, and tables", ""),
        ("lease-held-elsewhere", "another process has the lease, and this one stands by", "the Lease", ""),
        ("lease-not-acquired", "no process works, because the lease cannot be acquired", "the elector's error", ""),
        ("manager-draining", "the manager is shutting down", "its state", ""),
        (
            "controller-disabled",
            "the controller of the object is not enabled",
            "--controllers, its feature gate, or its state",
            "run-kcm ctl enable {controller}",
        ),
        ("controller-paused", "the controller is paused", "its state", "run-kcm ctl resume {controller}"),
        ("controller-crash-looping", "the controller fails again and again", "restarts and last error", HEALTH),
        ("controller-gave-up", "the controller failed too often and is left stopped", "its last error", HEALTH),
        ("controller-down", "the controller is not running now", "its state", HEALTH),
        ("controller-hung", "the controller does not make progress", "the message that it handles", HEALTH),
        ("key-held-back", "reconciling this object hung before, so it is held back", "the held keys", HEALTH),
        ("controller-waits-for-tables", "the controller waits for tables to be complete", "missing tables", HEALTH),
        ("stale-table", "a table that the controller depends on is out of date", "its age and its failure", HEALTH),
        ("controller-denied", "the API server denies the controller a right", "access reviews", HEALTH),
        ("rate-limited", "the controller's rate limit is used up", "the limiter and the queue", HEALTH),
        ("reconcile-fails", "reconciling this object fails, and is retried with backoff", "the last error", HEALTH),
        (
            "storm-brake",
            "the storm brake holds deletions and evictions back",
            "its state, the commands that wait",
            "run-kcm ctl brake release",
        ),
        ("waits-for-server", "a command of the controller has no outcome yet", "the commands that wait", HEALTH),
        ("waits-in-queue", "the object has waited in the queue for long", "its queue", HEALTH),
    ),
    *_domain(
        "Writes that are refused",
        (
            "quota-exceeded",
            "a ResourceQuota is used up, or too small",
            "the refusal",
            "kubectl describe quota{namespace}",
        ),
        (
            "quota-needs-values",
            "a ResourceQuota requires requests or limits that the pod does not have",
            "the refusal",
            "kubectl describe quota{namespace}",
        ),
        ("limit-range", "a LimitRange forbids the values", "the refusal", "kubectl describe limits{namespace}"),
        ("pod-security", "the Pod Security level of the namespace forbids the pod", "the refusal", EDIT),
        (
            "webhook-unavailable",
            "an admission webhook cannot be called",
            "the refusal",
            "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        ),
        ("webhook-denied", "an admission webhook denies the write", "the refusal", DESCRIBE),
        (
            "policy-denied",
            "an admission policy denies the write",
            "the refusal",
            "kubectl get validatingadmissionpolicies",
        ),
        ("not-permitted", "RBAC does not permit the write", "the refusal", "kubectl auth can-i --list"),
        (
            "service-account-missing",
            "the service account of the pod does not exist",
            "the refusal, and the namespace",
            "kubectl get serviceaccounts{namespace}",
        ),
        ("priority-class-missing", "the PriorityClass of the pod does not exist", "the refusal", "kubectl get pc"),
        (
            "runtime-class-missing",
            "the RuntimeClass of the pod does not exist",
            "the refusal",
            "kubectl get runtimeclasses",
        ),
        ("invalid-template", "the template makes an invalid object", "the refusal", EDIT),
        ("namespace-terminating", "the namespace is being deleted", "the refusal", "kubectl get namespaces"),
        ("write-refused", "the API server refuses a write, for another reason", "the refusal", DESCRIBE),
    ),
    *_domain(
        "Deletion",
        ("finalizer", "a finalizer that no controller of Kubernetes removes", "metadata.finalizers", EDIT),
        (
            "finalizer-controller",
            "a finalizer whose controller does not work",
            "metadata.finalizers, the controller",
            HEALTH,
        ),
        ("foreground-deletion", "dependents must be deleted first", "dependents that block the owner", DESCRIBE),
        ("namespace-not-empty", "the namespace still contains objects", "its conditions", DESCRIBE),
        (
            "namespace-discovery",
            "the contents of the namespace cannot be listed, because an API is not available",
            "its conditions",
            "kubectl get apiservices",
        ),
        ("instances-remain", "custom resources must be deleted before their definition", "the objects", DESCRIBE),
        ("in-use", "a protected object is still used", "the objects that use it", DESCRIBE),
        (
            "kubelet-does-not-stop-pod",
            "the kubelet has not stopped the pod in its grace period",
            "deletionTimestamp",
            DESCRIBE,
        ),
    ),
    *_domain(
        "Scheduling",
        ("no-nodes", "the cluster has no nodes", "the nodes", "kubectl get nodes"),
        ("no-scheduler", "no scheduler has handled the pod", "no condition PodScheduled", DESCRIBE),
        ("scheduling-gates", "the pod has scheduling gates", "spec.schedulingGates", EDIT),
        ("insufficient-resources", "no node has enough free resources", "the scheduler", "kubectl describe nodes"),
        (
            "untolerated-taint",
            "the pod does not tolerate the taints of the nodes",
            "the scheduler",
            "kubectl describe nodes",
        ),
        (
            "node-affinity",
            "no node matches the node selector or affinity",
            "the scheduler",
            "kubectl get nodes --show-labels",
        ),
        ("pod-affinity", "pod affinity or anti-affinity excludes the nodes", "the scheduler", DESCRIBE),
        ("topology-spread", "a topology spread constraint excludes the nodes", "the scheduler", DESCRIBE),
        ("nodes-unschedulable", "the nodes are cordoned", "the scheduler, spec.unschedulable", "kubectl get nodes"),
        ("host-port", "the host port is taken on each node", "the scheduler", DESCRIBE),
        ("volume-not-reachable", "the volume cannot be reached from the nodes", "the scheduler", DESCRIBE),
        ("claim-in-use", "another pod uses the ReadWriteOncePod claim", "the scheduler, the pods", DESCRIBE),
        ("too-many-volumes", "no node can attach another volume", "the scheduler", DESCRIBE),
        ("device-unavailable", "no free device meets a ResourceClaim", "the scheduler", "kubectl get resourceslices"),
        ("preempting", "pods of lower priority are being preempted", "status.nominatedNodeName", DESCRIBE),
        ("unschedulable", "the scheduler found no node, for another reason", "the scheduler", DESCRIBE),
    ),
    *_domain(
        "Pods and containers",
        ("image-pull", "the image cannot be pulled", "the container's state", DESCRIBE),
        ("image-invalid", "the name of the image is invalid", "the container's state", EDIT),
        ("image-never-pull", "the image is missing, and must not be pulled", "the container's state", EDIT),
        (
            "config-missing",
            "a ConfigMap or Secret of the pod does not exist",
            "the container, events, and reads",
            DESCRIBE,
        ),
        ("container-cannot-start", "the container cannot be created or started", "the container's state", DESCRIBE),
        (
            "crash-loop",
            "a container ends again and again",
            "restarts, exit code",
            "kubectl logs --previous {name}{namespace}",
        ),
        ("out-of-memory", "a container exceeds its memory limit, or the memory of its node", "OOMKilled", DESCRIBE),
        ("startup-probe", "the startup or liveness probe fails", "events Unhealthy", DESCRIBE),
        ("readiness-probe", "a container is not ready", "its readiness, events Unhealthy", DESCRIBE),
        ("readiness-gate", "a readiness gate is not met", "status.conditions", DESCRIBE),
        ("init-container", "an init container has not finished", "its state", DESCRIBE),
        (
            "container-does-not-end",
            "a container still runs after another one of the pod has completed",
            "states of the containers",
            DESCRIBE,
        ),
        ("volume-mount", "a volume cannot be mounted", "events FailedMount", DESCRIBE),
        ("device-preparation", "the devices of the pod cannot be prepared", "events", DESCRIBE),
        ("pod-rejected", "the kubelet rejected the pod", "status.reason", DESCRIBE),
        ("pod-evicted", "the pod was evicted", "status.reason, DisruptionTarget", DESCRIBE),
        ("pod-failed", "the pod has failed", "status.phase", DESCRIBE),
        ("resize-pending", "the kubelet has not resized the pod in place", "its conditions", DESCRIBE),
        ("kubelet-silent", "the kubelet has not started the pod", "no state of its containers", DESCRIBE),
    ),
    *_domain(
        "Nodes",
        ("node-lost", "the node does not respond", "its condition Ready, its Lease", "kubectl describe node {name}"),
        ("node-not-ready", "the kubelet reports that the node is not ready", "its condition Ready", DESCRIBE),
        ("node-cordoned", "the node is cordoned", "spec.unschedulable", "kubectl uncordon {name}"),
        ("node-pressure", "the node is short of a resource", "its conditions", DESCRIBE),
        (
            "zone-disruption",
            "too many nodes of the zone fail, so pods are evicted slowly or not at all",
            "nodes, taints",
            "kubectl get nodes -L topology.kubernetes.io/zone",
        ),
        (
            "eviction-rate",
            "the node waits for its turn to be tainted",
            "nodes, taints",
            "kubectl get nodes -L topology.kubernetes.io/zone",
        ),
        ("node-network", "the network of the node is not configured", "its conditions, podCIDR", DESCRIBE),
    ),
    *_domain(
        "Workloads",
        ("rollout-paused", "the rollout is paused", "spec.paused", "kubectl rollout resume {kind}/{name}{namespace}"),
        (
            "rollout-limits",
            "maxSurge and maxUnavailable, or old pods, keep the rollout from continuing",
            "replicas",
            DESCRIBE,
        ),
        ("progress-deadline", "the rollout made no progress in time", "condition Progressing", DESCRIBE),
        ("selector-overlap", "another owner, autoscaler or budget selects the same pods", "selectors", DESCRIBE),
        ("ordered-pods", "a pod of lower ordinal is not ready", "the pods", DESCRIBE),
        (
            "old-revision-broken",
            "a pod of the old revision is not ready, so that the StatefulSet does not apply its changed template",
            "revisions of the pods",
            DESCRIBE,
        ),
        ("manual-update", "the strategy OnDelete or a partition keeps old pods", "spec.updateStrategy", DESCRIBE),
        (
            "no-matching-nodes",
            "no node is eligible for the DaemonSet",
            "status, nodes",
            "kubectl get nodes --show-labels",
        ),
        ("failing-pods-backoff", "pods fail at once, and replacements are delayed", "failed pods", DESCRIBE),
        (
            "not-available-yet",
            "pods are ready, but not for minReadySeconds, or within the time that their probes allow them",
            "status, probes",
            DESCRIBE,
        ),
        (
            "missing-owner",
            "the owner does not exist, and the object was not deleted with it",
            "ownerReferences, the garbage collector",
            HEALTH,
        ),
    ),
    *_domain(
        "Jobs and CronJobs",
        ("job-failed", "the job has failed, and is not retried", "condition Failed", DESCRIBE),
        ("job-deadline", "the job was active for longer than activeDeadlineSeconds", "condition Failed", EDIT),
        ("suspended", "the job or CronJob is suspended, or its parallelism is 0", "spec", EDIT),
        ("managed-elsewhere", "spec.managedBy leaves the job to another controller", "spec.managedBy", EDIT),
        ("schedule-invalid", "the schedule or its time zone cannot be used", "spec.schedule, events", EDIT),
        ("schedule-missed", "a slot was not started before startingDeadlineSeconds", "the schedule, status", DESCRIBE),
        ("concurrency-forbids", "the previous job still runs, and concurrencyPolicy is Forbid", "status", DESCRIBE),
    ),
    *_domain(
        "Autoscaling and budgets",
        ("scale-target-missing", "the object that is to be scaled does not exist", "condition AbleToScale", EDIT),
        ("scale-failed", "the target cannot be scaled", "condition AbleToScale or ScalingActive", DESCRIBE),
        (
            "metrics-unavailable",
            "the metrics API does not respond, or is not installed",
            "condition ScalingActive, APIServices",
            "kubectl get apiservices",
        ),
        (
            "metrics-missing",
            "the metrics API has no metrics of the pods",
            "condition ScalingActive",
            "kubectl top pods",
        ),
        ("requests-missing", "the pods have no requests, which utilization needs", "condition ScalingActive", DESCRIBE),
        ("autoscaling-disabled", "the target has 0 replicas", "condition ScalingActive", DESCRIBE),
        ("autoscaler-limit", "maxReplicas is reached", "condition ScalingLimited", EDIT),
        ("budget-allows-none", "the budget requires all pods, so no pod can be evicted", "status, its limit", EDIT),
        ("budget-unhealthy", "too few pods are healthy, so no pod can be evicted", "status", DESCRIBE),
        ("budget-not-computed", "the disruption controller cannot compute the budget", "its condition", DESCRIBE),
        ("drain-blocked", "a budget keeps pods on a cordoned node", "PodDisruptionBudgets, pods", DESCRIBE),
    ),
    *_domain(
        "Services and Ingresses",
        (
            "service-no-pods",
            "no pod matches the selector of the Service",
            "the selector, labels of pods",
            "kubectl get pods --show-labels{namespace}",
        ),
        (
            "endpoints-missing",
            "the Service has no selector and no EndpointSlice, and an EndpointSlice has no Service",
            "labels of EndpointSlices",
            "kubectl get endpointslices --show-labels{namespace}",
        ),
        ("endpoints-not-ready", "no pod of the Service is ready", "the pods", DESCRIBE),
        ("target-port-missing", "no container has a port with the name of targetPort", "the ports", EDIT),
        ("load-balancer-missing", "no controller creates a load balancer", "status.loadBalancer", DESCRIBE),
        ("load-balancer-failed", "the cloud cannot create the load balancer", "events", DESCRIBE),
        ("backend-missing", "a backend of the Ingress does not exist, or has no such port", "the rules, a read", EDIT),
        ("ingress-class-missing", "the IngressClass does not exist", "a read", "kubectl get ingressclasses"),
        (
            "ingress-unclassed",
            "the Ingress names none of the classes, and has no address",
            "spec.ingressClassName, status, events",
            "kubectl get ingressclasses",
        ),
    ),
    *_domain(
        "Volumes and devices",
        ("claim-missing", "the PersistentVolumeClaim of a pod does not exist", "the pod, and a read", DESCRIBE),
        ("claim-no-volume", "no PersistentVolume matches the claim", "the scheduler, the volumes", "kubectl get pv"),
        ("volume-attach", "a volume cannot be attached", "VolumeAttachment, events", "kubectl get volumeattachments"),
        ("attacher-silent", "the driver has not attached the volume", "VolumeAttachment", DESCRIBE),
        (
            "storage-class-missing",
            "the StorageClass of the claim does not exist",
            "a read",
            "kubectl get storageclasses",
        ),
        ("provisioner-silent", "the provisioner has not created the volume", "events, annotations", DESCRIBE),
        ("provisioning-failed", "the provisioner cannot create the volume", "events", DESCRIBE),
        (
            "claim-waits-for-pod",
            "the volume is created, or its file system expanded, when a pod uses the claim",
            "the StorageClass, conditions",
            DESCRIBE,
        ),
        (
            "scheduler-bypassed",
            "the claim waits for the scheduler, and its pod names its node itself",
            "the StorageClass, spec.nodeName",
            DESCRIBE,
        ),
        ("volume-missing", "the volume that the claim names does not exist", "a read", "kubectl get pv"),
        ("volume-taken", "the volume that the claim names belongs to another claim", "spec.claimRef", "kubectl get pv"),
        ("volume-mismatch", "size, class, mode or access modes of the volume do not fit", "both objects", DESCRIBE),
        ("volume-lost", "the volume of the claim was lost", "status.phase", DESCRIBE),
        ("volume-expansion", "the volume cannot be expanded", "status, events", DESCRIBE),
        (
            "volume-attributes",
            "the VolumeAttributesClass of the claim does not exist, or cannot be applied",
            "a read, status, events",
            "kubectl get volumeattributesclasses",
        ),
        ("volume-failed", "the volume cannot be reclaimed", "status.phase", DESCRIBE),
        ("volume-released", "the claim was deleted, and the volume is retained", "status.phase", EDIT),
        ("volume-not-deleted", "the provisioner has not deleted the volume", "status.phase", DESCRIBE),
        ("device-claim-missing", "the ResourceClaim of a pod does not exist", "the pod, and a read", DESCRIBE),
        ("device-claim-waits-for-pod", "devices are allocated when a pod uses the claim", "the pods", DESCRIBE),
        ("device-class-missing", "the DeviceClass does not exist", "a read", "kubectl get deviceclasses"),
        ("device-template-missing", "the ResourceClaimTemplate does not exist", "a read", DESCRIBE),
    ),
    *_domain(
        "Objects of the API server",
        ("csr-unapproved", "the request is not approved", "its conditions", "kubectl certificate approve {name}"),
        ("csr-denied", "the request was denied", "its conditions", DESCRIBE),
        ("csr-failed", "the signer rejected the request", "its conditions", DESCRIBE),
        ("csr-unsigned", "the signer has not signed the request", "its conditions", DESCRIBE),
        ("api-service-unavailable", "the server of the API does not respond", "condition Available", DESCRIBE),
    ),
    *_domain(
        "Any object",
        ("condition-false", "the status reports a failure", "status.conditions", DESCRIBE),
        ("unexplained", "it is not in its desired state, and no cause was found", "what is missing", DESCRIBE),
    ),
)

CATALOGUE = {cause.code: cause for cause in CAUSES}
