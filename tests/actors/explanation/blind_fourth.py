"""Blind scenarios of the second blind trial, by another author: workloads, refusals, budgets and networks.

blind_fourth_storage.py has those of claims and volumes; HELD_BACK is scored before and after the corrections.
"""

from __future__ import annotations

from kcm.protocols.resources import Resource
from tests.actors.explanation.blind_cluster import signing_request
from tests.actors.explanation.blind_fourth_storage import HELD_BACK_STORAGE, STORAGE
from tests.actors.explanation.blind_held_back import HELD_BACK_OTHERS
from tests.actors.explanation.blind_scenario import (
    BY_HAND,
    BlindScenario,
    admission_policy,
    budget,
    change_image,
    cron_job,
    job,
    scenario,
    service,
    worker,
    workload,
)
from tests.actors.explanation.scenario import Scene

INGRESS_CLASSES = Resource(
    group="networking.k8s.io", version="v1", plural="ingressclasses", kind="IngressClass", namespaced=False
)
WORKLOADS: list[BlindScenario] = []
K8S = "https://github.com/kubernetes/kubernetes/issues"


@scenario(
    WORKLOADS,
    "quota of best-effort pods is used up",
    cause="Quota scavengers counts only pods without requests and limits (scope BestEffort), and its 2 pods are used.",
    facts=("scavengers", "2", "BestEffort"),
    code="quota-exceeded",
)
def best_effort_quota(scene: Scene) -> tuple[str, str]:
    spec = {"hard": {"pods": "2"}, "scopes": ["BestEffort"]}
    scene.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "scavengers"}, "spec": spec})
    scene.run(5.0)
    workload(scene, "search-api", replicas=3, container={"resources": {"requests": {"cpu": "50m"}}})
    return workload(scene, "crawler", replicas=3)


@scenario(
    WORKLOADS,
    "quota of pods with a deadline refuses the runs of a CronJob",
    cause="Quota short-lived (scope Terminating) allows 1Gi of memory, and the pod of each run requests 2Gi.",
    facts=("short-lived", "2Gi", "1Gi"),
    untrue=("is used up",),
    wait=130.0,
    code="quota-exceeded",
)
def terminating_quota(scene: Scene) -> tuple[str, str]:
    spec = {"hard": {"requests.memory": "1Gi"}, "scopes": ["Terminating"]}
    scene.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "short-lived"}, "spec": spec})
    container = {"image": "busybox:1.36", "command": ["true"], "resources": {"requests": {"memory": "2Gi"}}}
    return cron_job(scene, "digest", "* * * * *", activeDeadlineSeconds=120, container=container)


@scenario(
    WORKLOADS,
    "priority class does not preempt",
    cause="Node sim-lab has no 4 free CPUs, and the priority class gentle preempts nothing (preemptionPolicy Never).",
    facts=("cpu", "gentle|Never|preempt"),
    flags=BY_HAND,
    code="insufficient-resources",
)
def never_preempts(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "sim-lab")
    body = {"value": 100000, "preemptionPolicy": "Never"}
    scene.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gentle"}, **body})
    workload(scene, "sweeps", container={"resources": {"requests": {"cpu": "6"}}}, **pool)
    scene.run(5.0)
    wanted = {"resources": {"requests": {"cpu": "4"}}}
    return workload(scene, "simulate", priorityClassName="gentle", container=wanted, **pool)


@scenario(
    WORKLOADS,
    "two budgets select the same pods",
    cause="The pods of budget frontend are selected by budget tier-web as well, so evictions are refused.",
    facts=("tier-web", "more than one|both|as well|also|two|several|another|overlap|multiple|second"),
    report=f"{K8S}/75957",
    code="selector-overlap",
)
def overlapping_budgets(scene: Scene) -> tuple[str, str]:
    workload(scene, "frontend", replicas=3, labels={"tier": "web"})
    budget(scene, "frontend", {"app": "frontend"}, maxUnavailable=1)
    budget(scene, "tier-web", {"tier": "web"}, maxUnavailable="50%")
    return "PodDisruptionBudget", "frontend"


@scenario(
    WORKLOADS,
    "budget with a share selects pods without a controller",
    cause="The expected number of pods is unknown, because worker-a has no controller.",
    facts=("worker-a|worker-b", "no controller|not controlled|without a controller|no owner|has no|no controllers"),
    report=f"{K8S}/88535",
    code="budget-not-computed",
)
def budget_of_bare_pods(scene: Scene) -> tuple[str, str]:
    for name in ("worker-a", "worker-b"):
        scene.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": {"app": "workers"}},
                "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]},
            }
        )
    budget(scene, "workers", {"app": "workers"}, maxUnavailable="50%")
    return "PodDisruptionBudget", "workers"


@scenario(
    WORKLOADS,
    "admission policy refuses the Jobs of a CronJob",
    cause="Policy jobs-need-ttl refuses the Jobs, because their template does not set ttlSecondsAfterFinished.",
    facts=("jobs-need-ttl", "ttlSecondsAfterFinished"),
    wait=130.0,
    code="policy-denied",
)
def jobs_are_refused(scene: Scene) -> tuple[str, str]:
    admission_policy(
        scene,
        "jobs-need-ttl",
        ("batch", "v1", "jobs"),
        ["CREATE"],
        "has(object.spec.ttlSecondsAfterFinished)",
        "Jobs must set ttlSecondsAfterFinished",
    )
    return cron_job(scene, "nightly-mail", "* * * * *", container={"image": "busybox:1.36", "command": ["true"]})


@scenario(
    WORKLOADS,
    "one index of a Job fails for good",
    cause="Index 2 has used up its one retry (backoffLimitPerIndex), so the Job ended as failed.",
    facts=("index 2|indexes 2|index: 2|indexes: 2|index=2|indexes=2|indexes are 2|-2-", "backoffLimitPerIndex|exit|7"),
    wait=180.0,
    report="https://github.com/kubernetes/kubernetes/pull/118009",
    code="pod-failed",
)
def index_fails(scene: Scene) -> tuple[str, str]:
    command = ["sh", "-c", 'if [ "$JOB_COMPLETION_INDEX" = 2 ]; then exit 7; fi; sleep 1']
    more = {"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimitPerIndex": 1}
    return job(scene, "shards", more=more, container={"image": "busybox:1.36", "command": command})


@scenario(
    WORKLOADS,
    "failure policy ignores every failure of a Job",
    cause="Each pod exits with 42, which podFailurePolicy ignores, so the Job retries for ever.",
    facts=("42", "ignore"),
    wait=200.0,
    code="pod-failed",
)
def failures_are_ignored(scene: Scene) -> tuple[str, str]:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}
    more = {"backoffLimit": 2, "podFailurePolicy": {"rules": [rule]}}
    return job(scene, "import", more=more, container={"image": "busybox:1.36", "command": ["sh", "-c", "exit 42"]})


@scenario(
    WORKLOADS,
    "pod of another owner has the name of a StatefulSet's pod",
    cause="Pod ledger-0 exists already and does not belong to the StatefulSet.",
    facts=("ledger-0", "exist|another|not owned|belong|taken|occupied|in the way|not controlled"),
    wait=90.0,
    code="write-refused",
)
def name_is_taken(scene: Scene) -> tuple[str, str]:
    scene.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "ledger-0", "labels": {"restored": "by-hand"}},
            "spec": {"containers": [{"name": "main", "image": "postgres:16"}]},
        }
    )
    scene.run(5.0)
    return workload(scene, "ledger", "StatefulSet", replicas=2)


@scenario(
    WORKLOADS,
    "readiness gate that nobody sets",
    cause="The new pod waits for the condition target-health.elbv2.k8s.aws/k8s-storefront of its readiness gate.",
    facts=("target-health.elbv2.k8s.aws/k8s-storefront", "readiness gate|readinessGate"),
    wait=90.0,
    report="https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/1205",
    code="readiness-gate",
)
def readiness_gate(scene: Scene) -> tuple[str, str]:
    workload(scene, "storefront", replicas=2)
    scene.run(20.0)
    gate = {"conditionType": "target-health.elbv2.k8s.aws/k8s-storefront"}
    scene.merge("Deployment", "storefront", {"spec": {"template": {"spec": {"readinessGates": [gate]}}}})
    return "Deployment", "storefront"


@scenario(
    WORKLOADS,
    "surge pod of a DaemonSet needs the host port of the old pod",
    cause="The updated pod needs host port 9100, which the old pod keeps until the updated one is ready (maxSurge).",
    facts=("9100|host port|hostPort|free ports", "surge|old pod|same port|holds|previous|keeps"),
    wait=90.0,
    report=f"{K8S}/106417",
    code="host-port",
)
def surge_needs_the_port(scene: Scene) -> tuple[str, str]:
    container = {"image": "node-exporter:1.7", "ports": [{"name": "metrics", "containerPort": 9100, "hostPort": 9100}]}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    workload(scene, "exporter", "DaemonSet", more={"updateStrategy": strategy}, container=container)
    scene.run(20.0)
    change_image(scene, "DaemonSet", "exporter", "node-exporter:1.8")
    return "DaemonSet", "exporter"


@scenario(
    WORKLOADS,
    "autoscaler names a version of Deployments that is not served",
    cause="The target's apiVersion extensions/v1beta1 is not served any more.",
    facts=(
        'extensions/v1beta1|group "extensions"|group extensions',
        "no match|not served|unknown|not exist|no such|not found|not serve|apiVersion",
    ),
    wait=60.0,
    code="scale-failed",
)
def old_version_of_target(scene: Scene) -> tuple[str, str]:
    workload(scene, "api", replicas=2, container={"resources": {"requests": {"cpu": "100m"}}})
    target = {"apiVersion": "extensions/v1beta1", "kind": "Deployment", "name": "api"}
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 6}
    kind = "HorizontalPodAutoscaler"
    scene.apply({"apiVersion": "autoscaling/v2", "kind": kind, "metadata": {"name": "api"}, "spec": spec})
    return kind, "api"


@scenario(
    WORKLOADS,
    "named target port has another protocol",
    cause="Target port dns of the TCP port is a UDP port in the pods.",
    facts=("dns", "UDP"),
    code="target-port-missing",
)
def other_protocol(scene: Scene) -> tuple[str, str]:
    ports = [{"name": "dns", "containerPort": 5353, "protocol": "UDP"}]
    workload(scene, "resolver", replicas=2, container={"ports": ports})
    return service(scene, "resolver", port=53, target="dns")


@scenario(
    WORKLOADS,
    "endpoints by hand name another Service",
    cause="The Service has no selector, and the slice written for it has the label of Service legacydb.",
    facts=("selector", "legacydb|kubernetes.io/service-name"),
    code="endpoints-missing",
)
def mislabelled_slice(scene: Scene) -> tuple[str, str]:
    spec = {"ports": [{"name": "sql", "port": 5432, "targetPort": 5432}]}
    scene.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "legacy-db"}, "spec": spec})
    scene.apply(
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "legacy-db-manual", "labels": {"kubernetes.io/service-name": "legacydb"}},
            "addressType": "IPv4",
            "ports": [{"name": "sql", "port": 5432}],
            "endpoints": [{"addresses": ["10.9.8.7"]}],
        }
    )
    return "Service", "legacy-db"


@scenario(
    WORKLOADS,
    "Ingress names a class that does not exist",
    cause="IngressClass nginx-internal does not exist.",
    facts=("nginx-internal", "not exist|not found|missing|no IngressClass|no such|no class"),
    code="ingress-class-missing",
)
def ingress_class(scene: Scene) -> tuple[str, str]:
    networking = "networking.k8s.io/v1"
    scene.create(INGRESS_CLASSES, "nginx", {"spec": {"controller": "k8s.io/ingress-nginx"}})
    workload(scene, "shop", replicas=2, container={"ports": [{"containerPort": 8080}]})
    service(scene, "shop")
    backend = {"service": {"name": "shop", "port": {"number": 80}}}
    rules = [{"host": "shop.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]
    spec_of_ingress = {"ingressClassName": "nginx-internal", "rules": rules}
    scene.apply({"apiVersion": networking, "kind": "Ingress", "metadata": {"name": "shop"}, "spec": spec_of_ingress})
    return "Ingress", "shop"


@scenario(
    WORKLOADS,
    "two definitions of a group have the same kind",
    cause="Kind Widget is in use by the definition widgets.acme.example.com, so the names are not accepted.",
    facts=("Widget", "in use|conflict|already|taken|used by"),
    code="condition-false",
)
def same_kind(scene: Scene) -> tuple[str, str]:
    for plural in ("widgets", "gadgets"):
        schema = {"openAPIV3Schema": {"type": "object"}}
        spec = {
            "group": "acme.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        }
        scene.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.acme.example.com"},
                "spec": spec,
            }
        )
        scene.run(10.0)
    return "CustomResourceDefinition", "gadgets.acme.example.com"


@scenario(
    WORKLOADS,
    "approved request has a signer that is not installed",
    cause="Signer pki.example.com/internal issues no certificate, because no program of this signer runs.",
    facts=("pki.example.com/internal", "signer|issue|sign"),
    code="csr-unsigned",
)
def unknown_signer(scene: Scene) -> tuple[str, str]:
    kind, name = "CertificateSigningRequest", "mesh-root"
    spec = {"request": signing_request(), "signerName": "pki.example.com/internal", "usages": ["digital signature"]}
    scene.apply({"apiVersion": "certificates.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    approved = {"type": "Approved", "status": "True", "reason": "ByAdmin", "message": "approved by an admin"}
    scene.merge(kind, name, {"status": {"conditions": [approved]}}, subresource="approval")
    return kind, name


FOURTH = (*WORKLOADS, *STORAGE)
HELD_BACK = (*HELD_BACK_STORAGE, *HELD_BACK_OTHERS)
