"""ReplicationControllers, and the kinds of apps/v1 and batch/v1.

Source: kubernetes pkg/apis/{apps,batch,core}/v1/defaults.go (v1.36).
"""

from __future__ import annotations

from protocols.objects import Object
from runtime.apiserver.kinds.defaults.pods import default_pod_template

ROLLING_UPDATE = "RollingUpdate"
HISTORY = 10
MAX_INT32 = 2**31 - 1


def default_replication_controller(controller: Object) -> None:
    """Its selector and its own labels are the template's, unless it says others."""
    spec = controller.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if "template" not in spec:
        return
    default_pod_template(spec["template"])
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)


def default_replicaset(replicaset: Object) -> None:
    spec = _spec_with_template(replicaset)
    spec.setdefault("replicas", 1)


def default_deployment(deployment: Object) -> None:
    spec = _spec_with_template(deployment)
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if not strategy.get("type"):
        strategy["type"] = ROLLING_UPDATE
    if strategy["type"] == ROLLING_UPDATE:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", HISTORY)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_daemonset(daemonset: Object) -> None:
    spec = _spec_with_template(daemonset)
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = ROLLING_UPDATE
    if strategy["type"] == ROLLING_UPDATE:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", HISTORY)


def default_statefulset(statefulset: Object) -> None:
    spec = _spec_with_template(statefulset)
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = ROLLING_UPDATE
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == ROLLING_UPDATE and "rollingUpdate" in strategy:
        strategy["rollingUpdate"].setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for when in ("whenDeleted", "whenScaled"):
        if not retention.get(when):
            retention[when] = "Retain"
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", HISTORY)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def default_job(job: Object) -> None:
    spec = job.setdefault("spec", {})
    default_job_spec(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def default_job_spec(spec: Object) -> None:
    default_pod_template(spec.setdefault("template", {}))
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)


def default_cron_job(cron_job: Object) -> None:
    """Its job template gets the pod's defaults only: a Job's own come when the job is made."""
    spec = cron_job.setdefault("spec", {})
    template = spec.setdefault("jobTemplate", {}).setdefault("spec", {}).setdefault("template", {})
    default_pod_template(template)
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def select_own_pods(job: Object) -> None:
    """A new Job finds its pods by its uid, unless it brings a selector of its own.

    Source: kubernetes pkg/registry/batch/job/strategy.go, generateSelector.
    """
    spec = job["spec"]
    if spec["manualSelector"]:
        return
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for key, value in (("controller-uid", uid), ("job-name", name)):
        labels[key] = labels[f"batch.kubernetes.io/{key}"] = value
    spec.setdefault("selector", {}).setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid
    if not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _spec_with_template(workload: Object) -> Object:
    spec: Object = workload.setdefault("spec", {})
    default_pod_template(spec.setdefault("template", {}))
    return spec
