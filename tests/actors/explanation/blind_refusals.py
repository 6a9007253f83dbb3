"""Blind scenarios of refused pods, Jobs and autoscalers."""

from __future__ import annotations

from kcm.actors.engine.webhooks.configurations import VALIDATING_CONFIGURATIONS
from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED
from tests.actors.explanation.blind_scenario import (
    BlindScenario,
    cron_job,
    job,
    quota,
    scenario,
    service,
    workload,
)
from tests.actors.explanation.scenario import Scene

REFUSALS: list[BlindScenario] = []
ISSUES = "https://github.com/kubernetes/kubernetes/issues/"


# Refusals.


@scenario(
    REFUSALS,
    "quota needs limits that the template does not have",
    cause="ResourceQuota team-quota limits limits.memory, and the pods' container has no memory limit, so all "
    "pods are refused.",
    facts=("team-quota", "limits.memory"),
    code="quota-needs-values",
)
def quota_needs_limits(scene: Scene) -> tuple[str, str]:
    quota(scene, "team-quota", requests_cpu="4", requests_memory="8Gi", limits_memory="16Gi")
    scene.run(3.0)
    requests = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    return workload(scene, "newsletter", replicas=2, container={"resources": requests})


@scenario(
    REFUSALS,
    "LimitRange has a maximum",
    cause="LimitRange allows at most 1Gi of memory for each container, and the template asks for 2Gi, so all "
    "pods are refused.",
    facts=("1Gi", "2Gi", "memory"),
    code="limit-range",
)
def limit_range_maximum(scene: Scene) -> tuple[str, str]:
    limits = [{"type": "Container", "max": {"memory": "1Gi"}}]
    scene.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "caps"}, "spec": {"limits": limits}})
    scene.run(3.0)
    return workload(scene, "etl", "StatefulSet", container={"resources": {"limits": {"memory": "2Gi"}}})


@scenario(
    REFUSALS,
    "default limit of a LimitRange is lower than the request",
    cause="The container requests 600Mi, and the LimitRange gives it a default limit of 512Mi, so its pods are "
    "invalid.",
    facts=("600Mi", "limit", "512Mi|LimitRange"),
    report=f"{ISSUES}51430",
    code="invalid-template|limit-range",
    added=("limitrange|limits mem|limits/mem|limitranges mem",),
)
def limit_range_default(scene: Scene) -> tuple[str, str]:
    limits = [{"type": "Container", "default": {"memory": "512Mi"}, "defaultRequest": {"memory": "256Mi"}}]
    scene.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "mem"}, "spec": {"limits": limits}})
    scene.run(3.0)
    workload(scene, "small", container={"resources": {"requests": {"memory": "64Mi"}}})
    return workload(scene, "indexer", container={"resources": {"requests": {"memory": "600Mi"}}})


@scenario(
    REFUSALS,
    "service account was not created in this namespace",
    cause="The pods name the service account ci-deployer, which does not exist in the namespace, so they are refused.",
    facts=("ci-deployer", "not found|does not exist|missing"),
    code="service-account-missing",
)
def service_account(scene: Scene) -> tuple[str, str]:
    return workload(scene, "deploy-agent", replicas=2, serviceAccountName="ci-deployer")


@scenario(
    REFUSALS,
    "namespace enforces the restricted pod security standard",
    cause="The namespace enforces the pod security standard restricted, which the pods violate, so they are refused.",
    facts=("restricted", "allowPrivilegeEscalation|runAsNonRoot|seccomp|violates"),
    code="pod-security",
)
def pod_security(scene: Scene) -> tuple[str, str]:
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    scene.merge("Namespace", scene.namespace, {"metadata": {"labels": enforced}})
    return workload(scene, "node-tuner", "DaemonSet")


@scenario(
    REFUSALS,
    "webhook of a policy engine has no endpoints",
    cause="The webhook validate.policy.corp.example must answer for each pod, but its Service policy-webhook "
    "has no endpoints, so pods are refused.",
    facts=("validate.policy.corp.example", "policy-webhook", "endpoints"),
    report="https://github.com/gopaddle-io/configurator/issues/74",
    code="webhook-unavailable",
)
def dead_webhook(scene: Scene) -> tuple[str, str]:
    workload(scene, "policy", container={"image": "registry.invalid/policy:1"})
    service(scene, "policy-webhook", {"app": "policy"}, port=443)
    place = {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}
    webhook = {
        "name": "validate.policy.corp.example",
        "clientConfig": {"service": {"name": "policy-webhook", "namespace": scene.namespace, "path": "/pods"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": place,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    scene.run(10.0)
    scene.create(VALIDATING_CONFIGURATIONS, "policy-engine", {"webhooks": [webhook]})
    return workload(scene, "tracking", replicas=3)


# Jobs.


@scenario(
    REFUSALS,
    "Job has used up its retries",
    cause="Job migrate-schema has failed for good: its pods exited with code 42 four times, more often than "
    "its backoffLimit of 3.",
    facts=("backofflimit|backoff limit", "3", "42"),
    wait=200.0,
    code="pod-failed|job-failed",
)
def job_retries(scene: Scene) -> tuple[str, str]:
    fails = {"image": "busybox:1.36", "command": ["sh", "-c", "sleep 1; exit 42"]}
    return job(scene, "migrate-schema", more={"backoffLimit": 3}, container=fails)


@scenario(
    REFUSALS,
    "hung run forbids the next ones",
    cause="The first run of CronJob nightly-export cannot pull its image and never ends, and the policy Forbid "
    "skips all later runs.",
    facts=("nightly-export", "registry.invalid/export:7|forbid"),
    report=f"{ISSUES}58748",
    wait=400.0,
    code="image-pull",
)
def forbidden_runs(scene: Scene) -> tuple[str, str]:
    return cron_job(
        scene,
        "nightly-export",
        "* * * * *",
        more={"concurrencyPolicy": "Forbid"},
        container={"image": "registry.invalid/export:7"},
    )


@scenario(
    REFUSALS,
    "finished Jobs use up the quota of a CronJob",
    cause="ResourceQuota objects allows 3 Jobs in the namespace, which finished ones use up, so the CronJob "
    "cannot create its next Job.",
    facts=("objects", "count/jobs.batch", "3"),
    wait=200.0,
    code="quota-exceeded",
)
def quota_of_jobs(scene: Scene) -> tuple[str, str]:
    quota(scene, "objects", count__jobs_batch="3")
    scene.run(3.0)
    for number in range(3):
        job(scene, f"manual-backfill-{number}", container={"image": "busybox:1.36", "command": ["true"]})
    scene.run(10.0)
    done = {"image": "busybox:1.36", "command": ["true"]}
    return cron_job(scene, "rotate-keys", "* * * * *", container=done)


# Autoscaling.


@scenario(
    REFUSALS,
    "sidecar without a CPU request",
    cause="The HorizontalPodAutoscaler needs CPU utilization, but the sidecar istio-proxy of its pods has no "
    "CPU request.",
    facts=("cpu", "istio-proxy", "request"),
    report="https://github.com/istio/istio/issues/13977",
    alone=True,
    wait=120.0,
    code="requests-missing",
)
def sidecar_request(scene: Scene) -> tuple[str, str]:
    scene.cluster.serve(*AGGREGATED)
    requests = {"requests": {"cpu": "200m", "memory": "128Mi"}}
    containers = [
        {"name": "main", "image": "nginx:1.27", "resources": requests},
        {"name": "istio-proxy", "image": "istio/proxyv2:1.24.0"},
    ]
    workload(scene, "recommender", replicas=2, annotations={"hollow.kcm.dev/cpu-usage": "190m"}, containers=containers)
    return autoscaler(scene, "recommender", "recommender")


@scenario(
    REFUSALS,
    "cluster has no metrics server",
    cause="The resource metrics API metrics.k8s.io is not served, because no metrics server is installed, so "
    "the utilization is unknown.",
    facts=("metrics", "metrics.k8s.io|metrics server|metrics-server|resource metrics api"),
    wait=120.0,
    code="metrics-unavailable",
)
def no_metrics(scene: Scene) -> tuple[str, str]:
    workload(scene, "voting", replicas=2, container={"resources": {"requests": {"cpu": "100m"}}})
    return autoscaler(scene, "voting", "voting")


def autoscaler(scene: Scene, name: str, target: str) -> tuple[str, str]:
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    body = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
        "minReplicas": 2,
        "maxReplicas": 10,
        "metrics": [{"type": "Resource", "resource": cpu}],
    }
    kind = "HorizontalPodAutoscaler"
    scene.apply({"apiVersion": "autoscaling/v2", "kind": kind, "metadata": {"name": name}, "spec": body})
    return kind, name
