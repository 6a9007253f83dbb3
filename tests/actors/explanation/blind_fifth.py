"""Blind scenarios of the third blind trial: everyday incidents, in the proportion in which people report them.

blind_fifth_held_back.py has those that are scored before and after the corrections.
"""

from __future__ import annotations

from kcm.actors.engine.webhooks.configurations import VALIDATING_CONFIGURATIONS
from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from kcm.runtime.apiserver.kinds.aggregated import AGGREGATED
from tests.actors.explanation.blind_refusals import autoscaler
from tests.actors.explanation.blind_scenario import (
    BY_HAND,
    BlindScenario,
    change_image,
    claim,
    crashing_neighbour,
    cron_job,
    ended,
    event,
    mounts,
    pods_of,
    quota,
    report,
    scenario,
    service,
    worker,
    workload,
)
from tests.actors.explanation.scenario import Scene

FIFTH: list[BlindScenario] = []
APPLICATIONS = Resource(group="argoproj.io", version="v1alpha1", plural="applications", kind="Application")
HOSTNAME = "kubernetes.io/hostname"


# Pods that are not scheduled.


@scenario(
    FIFTH,
    "memory request has the wrong unit",  # distraction: another workload of the namespace crashes
    cause="Each pod requests 512Gi of memory (512Mi was meant), more than any node has.",
    facts=("memory", "512Gi"),
    wait=120.0,
    report="https://errornotes.dev/en/errors/kubernetes/"
    "fix-kubernetes-error-03-nodes-are-available-1-insufficient-cpu-2-insufficient-me",
)
def wrong_unit(scene: Scene) -> tuple[str, str]:
    crashing_neighbour(scene, "legacy-mailer")
    requests = {"resources": {"requests": {"cpu": "250m", "memory": "512Gi"}}}
    return workload(scene, "thumbnailer", replicas=2, container=requests)


@scenario(
    FIFTH,
    "claim waits for a pod whose node selector has a typing error",  # distraction: the claim itself is fine
    cause="The claim waits for its first pod, which is not scheduled: no node has the label disk-type=ssd "
    "(the label of the node is disktype).",
    facts=("media-|deployment media|deployment/media", "disk-type"),
    alone=True,  # it labels a node
    report="https://www.intellira.ai/troubleshoot/kubernetes/pvc-pending",
)
def claim_of_unscheduled_pod(scene: Scene) -> tuple[str, str]:
    scene.merge("Node", "hollow-node-0", {"metadata": {"labels": {"disktype": "ssd"}}})
    uploads = claim(scene, "uploads", "20Gi", storageClassName="hollow-wait")
    workload(scene, "media", nodeSelector={"disk-type": "ssd"}, **mounts("uploads"))
    return uploads


@scenario(
    FIFTH,
    "surge pod of a rollout has no node of its own",  # distraction: all pods of the old version are ready
    cause="The anti-affinity requires a node for each pod, the old pods occupy all 3 nodes, and no old pod may be "
    "removed before the new one is ready.",
    facts=("anti-affinity|antiaffinity", "3 node|all nodes|each node|every node|maxsurge|maxunavailable"),
    wait=120.0,
    report="https://github.com/kubernetes/kubernetes/issues/116891",
)
def surge_without_node(scene: Scene) -> tuple[str, str]:
    term = {"labelSelector": {"matchLabels": {"app": "ledger"}}, "topologyKey": HOSTNAME}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    workload(scene, "ledger", replicas=3, affinity=affinity)
    scene.run(20.0)
    change_image(scene, "Deployment", "ledger", "nginx:1.28")
    return "Deployment", "ledger"


@scenario(
    FIFTH,
    "pod of a DaemonSet does not fit its full node",  # distraction: the other nodes do not match the pod's affinity
    cause="hollow-node-1 has too little free CPU for the pod of the DaemonSet, because transcoder requests nearly all.",
    facts=("hollow-node-1", "cpu"),
    alone=True,
    wait=90.0,
    report="https://www.netdata.cloud/guides/kubernetes/kubernetes-daemonset-pods-pending/",
)
def full_node(scene: Scene) -> tuple[str, str]:
    most = {"resources": {"requests": {"cpu": "31500m"}}}
    workload(scene, "transcoder", nodeSelector={HOSTNAME: "hollow-node-1"}, container=most)
    scene.run(10.0)
    return workload(scene, "log-shipper", "DaemonSet", container={"resources": {"requests": {"cpu": "1"}}})


# Images.


@scenario(
    FIFTH,
    "image of a release was never pushed",  # distraction: ProgressDeadlineExceeded, and all old pods are ready
    cause="The image registry.example.com/acme/storefront:v2.14.0 cannot be pulled, so the rollout does not progress.",
    facts=("v2.14.0", "pull"),
    wait=240.0,
    report="https://devopsaitoolkit.com/blog/kubernetes-error-progressdeadlineexceeded/",
)
def missing_tag(scene: Scene) -> tuple[str, str]:
    old, new = (f"registry.example.com/acme/storefront:{tag}" for tag in ("v2.13.1", "v2.14.0"))
    workload(scene, "storefront", replicas=3, more={"progressDeadlineSeconds": 120}, container={"image": old})
    scene.run(20.0)
    change_image(scene, "Deployment", "storefront", new, unpullable_images="*:v2.14.0")
    return "Deployment", "storefront"


@scenario(
    FIFTH,
    "pull secret has another name",
    cause="The pods name the pull secret ghcr-creds, which does not exist (it is named ghcr-credentials), so the "
    "registry refuses to serve the private image.",
    facts=("ghcr-creds", "ghcr.io/acme/billing:4.2.0"),
    flags=BY_HAND,
    report="https://devcerts.org/blog/why-kubernetes-pods-fail-crashloopbackoff-oomkilled-and-imagepullbackoff-explained",
)
def missing_pull_secret(scene: Scene) -> tuple[str, str]:
    image = "ghcr.io/acme/billing:4.2.0"
    pool = worker(scene, "worker-private")
    body = {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}}
    scene.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ghcr-credentials"}, **body})
    secrets = [{"name": "ghcr-creds"}]
    workload(scene, "billing", replicas=2, imagePullSecrets=secrets, container={"image": image}, **pool)
    scene.run(10.0)
    refused = (
        f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": failed to authorize: '
        "failed to fetch anonymous token: unexpected status from GET request to https://ghcr.io/token: 401 Unauthorized"
    )
    unable = "Unable to retrieve some image pull secrets (ghcr-creds); attempting to pull the image may not succeed."
    for pod in pods_of(scene, "billing"):
        message = f'Back-off pulling image "{image}": ErrImagePull: {refused}'
        report(scene, pod, {"state": {"waiting": {"reason": "ImagePullBackOff", "message": message}}})
        event(scene, pod, "FailedToRetrieveImagePullSecret", unable, count=12)
        event(scene, pod, "Failed", f'Failed to pull image "{image}": {refused}', count=4)
    return "Deployment", "billing"


# Containers that do not start, or end.


@scenario(
    FIFTH,
    "recommender is out of memory",  # distraction: readiness probes fail while it is down
    cause="The container is OOMKilled again and again, because it needs more than its memory limit of 256Mi.",
    facts=("OOM|out of memory|outofmemory", "256Mi"),
    flags=BY_HAND,
    report="https://devcerts.org/blog/why-kubernetes-pods-fail-crashloopbackoff-oomkilled-and-imagepullbackoff-explained",
)
def out_of_memory(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "worker-small")
    probe = {"httpGet": {"path": "/healthz", "port": 9000}, "periodSeconds": 5}
    resources = {"requests": {"cpu": "200m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}
    container = {"image": "acme/recommender:7", "resources": resources, "readinessProbe": probe}
    workload(scene, "recommender", container=container, **pool)
    scene.run(10.0)
    (pod,) = pods_of(scene, "recommender")
    name = pod["metadata"]["name"]
    waiting = {"reason": "CrashLoopBackOff", "message": f"back-off 2m40s restarting failed container=main pod={name}"}
    over = ended(scene, 137, "OOMKilled")
    status = {"state": {"waiting": waiting}, "lastState": {"terminated": over}, "restartCount": 6, "started": False}
    report(scene, pod, status, phase="Running")
    refused = 'Get "http://10.244.3.17:9000/healthz": dial tcp 10.244.3.17:9000: connect: connection refused'
    event(scene, pod, "Unhealthy", f"Readiness probe failed: {refused}", count=19)
    event(scene, pod, "BackOff", f"Back-off restarting failed container main in pod {name}", count=23)
    return "Deployment", "recommender"


@scenario(
    FIFTH,
    "liveness probe kills Keycloak while it starts",  # distraction: exit code 137, a memory limit
    cause="Keycloak needs 90 s to start, and its liveness probe has it killed after about 25 s each time.",
    facts=("liveness", "probe"),
    wait=300.0,
    report="https://kx.cloudingenium.com/kubernetes-pod-troubleshooting-guide",
)
def impatient_liveness(scene: Scene) -> tuple[str, str]:
    probe = {"httpGet": {"path": "/health/live", "port": 8080}, "initialDelaySeconds": 10, "periodSeconds": 5}
    container = {
        "image": "quay.io/keycloak/keycloak:26.0",
        "livenessProbe": {**probe, "failureThreshold": 3},
        "resources": {"requests": {"memory": "512Mi"}, "limits": {"memory": "1Gi"}},
    }
    slow = {"hollow.kcm.dev/start-seconds": "90"}
    return workload(scene, "keycloak", "StatefulSet", annotations=slow, container=container)


@scenario(
    FIFTH,
    "key of a Secret has another name",
    cause="The containers need the key db-password of Secret orders-db, which has only the keys username and password.",
    facts=("orders-db", "db-password"),
    flags=BY_HAND,
    report="https://devopscert202.github.io/k8sforbeginners/k8s/html/ts-pod-failures.html",
)
def missing_key(scene: Scene) -> tuple[str, str]:
    pool = worker(scene, "worker-orders")
    body = {"stringData": {"username": "orders", "password": "secret"}}
    scene.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "orders-db"}, **body})
    source = {"secretKeyRef": {"name": "orders-db", "key": "db-password"}}
    container = {"image": "acme/orders-worker:3.1", "env": [{"name": "DB_PASSWORD", "valueFrom": source}]}
    workload(scene, "orders-worker", replicas=2, container=container, **pool)
    scene.run(10.0)
    missing = f"couldn't find key db-password in Secret {scene.namespace}/orders-db"
    for pod in pods_of(scene, "orders-worker"):
        report(scene, pod, {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": missing}}})
        event(scene, pod, "Failed", f"Error: {missing}", count=11)
    return "Deployment", "orders-worker"


@scenario(
    FIFTH,
    "migration of the database fails",  # distraction: the Service has no endpoints, and its main container only waits
    cause="The init container migrate-schema of the pods exits with code 65, so they never become ready.",
    facts=("migrate-schema", "65"),
    wait=200.0,
    report="https://notes.darshanraul.me/Kubernetes/concepts/L08-operations/03-common-failure-modes",
)
def failing_migration(scene: Scene) -> tuple[str, str]:
    migrate = {"name": "migrate-schema", "image": "busybox:1.36", "command": ["sh", "-c", "sleep 2; exit 65"]}
    workload(scene, "helpdesk", replicas=2, initContainers=[migrate], container={"image": "acme/helpdesk:12"})
    return service(scene, "helpdesk")


# Volumes.


@scenario(
    FIFTH,
    "storage class of another cloud",  # distraction: the pod reports only an unbound claim
    cause="The claim data-postgresql-0 names the StorageClass gp2, which does not exist in this cluster.",
    facts=("data-postgresql-0", "gp2"),
    wait=90.0,
    report="https://infrarunbook.com/article/kubernetes-persistentvolume-not-binding",
)
def missing_class(scene: Scene) -> tuple[str, str]:
    requests = {"resources": {"requests": {"storage": "8Gi"}}, "accessModes": ["ReadWriteOnce"]}
    template = {"metadata": {"name": "data"}, "spec": {**requests, "storageClassName": "gp2"}}
    mounted = {"image": "postgres:17", "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql"}]}
    more = {"volumeClaimTemplates": [template]}
    return workload(scene, "postgresql", "StatefulSet", replicas=2, more=more, container=mounted)


@scenario(
    FIFTH,
    "claim was deleted before its Deployment",
    cause="The claim is being deleted, but a pod of Deployment wiki still uses it.",
    facts=("wiki-|deployment wiki|deployment/wiki", "pvc-protection|in use|uses it|used by|is used|mounted"),
    wait=90.0,
    report="https://randomwrites.com/tshooting/07-PVC-Terminating",
)
def claim_in_use(scene: Scene) -> tuple[str, str]:
    claim(scene, "shared-files", "5Gi")
    workload(scene, "wiki", **mounts("shared-files"))
    workload(scene, "frontend", replicas=2)
    scene.run(20.0)
    scene.delete("PersistentVolumeClaim", "shared-files")
    return "PersistentVolumeClaim", "shared-files"


@scenario(
    FIFTH,
    "rollout moves a disk to another node",  # distraction: the node of the old pod is cordoned
    cause="The volume of claim gitea-data can be attached to one node only, and the old pod still uses it on its node, "
    "so the new pod cannot start on another one.",
    facts=("gitea-data|pvc-", "attach", "already|exclusively|another node|other node|one node|used by|in use"),
    stage={"attach": True},
    alone=True,
    wait=150.0,
    report="https://kubernetesinterviewquestions.com/errors/multi-attach-error",
)
def multi_attach(scene: Scene) -> tuple[str, str]:
    claim(scene, "gitea-data", "10Gi")
    workload(scene, "gitea", **mounts("gitea-data"))
    scene.run(40.0)
    (pod,) = pods_of(scene, "gitea")
    scene.merge("Node", pod["spec"]["nodeName"], {"spec": {"unschedulable": True}})
    scene.run(3.0)
    change_image(scene, "Deployment", "gitea", "nginx:1.28")
    return "Deployment", "gitea"


# Workloads and what refuses their pods.


@scenario(
    FIFTH,
    "StatefulSet keeps a broken pod after the correction",  # distraction: the image of the template is fine
    cause="broker-2 still has the image of the broken revision, which cannot be pulled; the StatefulSet replaces it "
    "only when it is deleted by hand.",
    facts=("broker-2", "delete|revision|replace", "image|pull"),
    wait=120.0,
    report="https://github.com/kubernetes/kubernetes/issues/67250",
)
def broken_revision(scene: Scene) -> tuple[str, str]:
    unpullable = {"hollow.kcm.dev/unpullable-images": "*:3.9.l"}
    container = {"image": "acme/broker:3.9.0"}
    workload(scene, "broker", "StatefulSet", replicas=3, annotations=unpullable, container=container)
    scene.run(40.0)
    change_image(scene, "StatefulSet", "broker", "acme/broker:3.9.l")
    scene.run(60.0)
    change_image(scene, "StatefulSet", "broker", "acme/broker:3.9.1")
    return "StatefulSet", "broker"


@scenario(
    FIFTH,
    "quota demands limits",  # distraction: the quota is hardly used
    cause="ResourceQuota team-limits demands limits.memory of every container, and those of Deployment notifier "
    "have none.",
    facts=("team-limits", "limits.memory"),
    wait=90.0,
    report="https://netdata-website.netlify.app/guides/kubernetes/kubernetes-resource-quota-exceeded/",
)
def unlimited_container(scene: Scene) -> tuple[str, str]:
    quota(scene, "team-limits", requests_cpu="4", requests_memory="8Gi", limits_memory="16Gi")
    scene.run(3.0)
    resources = {"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
    return workload(scene, "notifier", replicas=2, container=resources)


@scenario(
    FIFTH,
    "admission webhook is down",
    cause="The webhook validate.kyverno.svc-fail must admit each pod, and its Service kyverno-svc has no endpoints.",
    facts=("validate.kyverno.svc-fail", "kyverno-svc"),
    alone=True,
    wait=90.0,
    report="https://devopsaitoolkit.com/blog/kubernetes-error-failed-calling-webhook/",
)
def webhook_without_server(scene: Scene) -> tuple[str, str]:
    scene.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kyverno"}})
    scene.run(3.0)
    policies = Scene(scene.stage, "kyverno", scene.chance)
    workload(policies, "kyverno-admission-controller", replicas=0)
    service(policies, "kyverno-svc", {"app": "kyverno-admission-controller"}, port=443, target=9443)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    server = {"service": {"namespace": "kyverno", "name": "kyverno-svc", "path": "/validate/fail", "port": 443}}
    webhook = {
        "name": "validate.kyverno.svc-fail",
        "admissionReviewVersions": ["v1"],
        "clientConfig": server,
        "failurePolicy": "Fail",
        "rules": [rule],
        "sideEffects": "None",
    }
    scene.create(VALIDATING_CONFIGURATIONS, "kyverno-resource-validating-webhook-cfg", {"webhooks": [webhook]})
    scene.run(5.0)
    return workload(scene, "landing", replicas=2)


# Services, autoscaling, Jobs and deletion.


@scenario(
    FIFTH,
    "selector of a Service has a typing error",  # distraction: all pods are ready, and another Service reaches them
    cause="The Service selects tier=back-end, and the pods have the label tier=backend, so it has no endpoints.",
    facts=("back-end", "selector|match|label"),
    report="https://grokdatum.github.io/grokdevops-wiki/library/case-studies/kubernetes_ops/service-no-endpoints/replay",
)
def mistyped_selector(scene: Scene) -> tuple[str, str]:
    workload(scene, "payments", replicas=3, labels={"tier": "backend"})
    service(scene, "payments-metrics", {"app": "payments"}, port=9090)
    return service(scene, "payments", {"app": "payments", "tier": "back-end"})


@scenario(
    FIFTH,
    "sidecar of an autoscaled Deployment requests no CPU",  # distraction: metrics are available, the pods are ready
    cause="The autoscaler cannot compute the utilization, because the container log-agent has no CPU request.",
    facts=("log-agent", "request"),
    alone=True,
    wait=180.0,
    report="https://buglyst.com/learn/guides/kubernetes-hpa-not-scaling-debug",
)
def missing_request(scene: Scene) -> tuple[str, str]:
    scene.cluster.serve(*AGGREGATED)
    main: Object = {"name": "catalog", "image": "acme/catalog:5", "resources": {"requests": {"cpu": "100m"}}}
    agent: Object = {"name": "log-agent", "image": "fluent/fluent-bit:3.2"}
    busy = {"hollow.kcm.dev/cpu-usage": "180m"}
    workload(scene, "catalog", replicas=2, annotations=busy, containers=[main, agent])
    scene.run(30.0)
    return autoscaler(scene, "catalog", "catalog")


@scenario(
    FIFTH,
    "hung run blocks all further runs of a CronJob",
    cause="The first Job of the CronJob never ends, and concurrencyPolicy Forbid skips all runs until then.",
    facts=("sync-inventory-", "forbid|concurrency", "active|running|still|not finished|unfinished"),
    wait=900.0,
    report="https://kubernetes.recipes/recipes/deployments/cronjob-concurrency-policy",
)
def hung_run(scene: Scene) -> tuple[str, str]:
    hangs = {"image": "acme/sync:2", "command": ["sleep", "infinity"]}
    return cron_job(scene, "sync-inventory", "*/2 * * * *", more={"concurrencyPolicy": "Forbid"}, container=hangs)


@scenario(
    FIFTH,
    "namespace keeps an Argo CD application",  # distraction: a Deployment and a claim were deleted with it
    cause="The namespace keeps Application guestbook, whose finalizer resources-finalizer.argocd.argoproj.io nothing "
    "removes.",
    facts=("guestbook", "resources-finalizer.argocd.argoproj.io"),
    wait=90.0,
    report="https://jorijn.com/en/knowledge-base/kubernetes/troubleshooting/kubernetes-namespace-stuck-terminating/",
)
def kept_application(scene: Scene) -> tuple[str, str]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "group": "argoproj.io",
        "scope": "Namespaced",
        "names": {"plural": "applications", "singular": "application", "kind": "Application"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": schema}],
    }
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    scene.apply({**kind, "metadata": {"name": "applications.argoproj.io"}, "spec": body})
    scene.run(20.0)
    claim(scene, "redis-data", "1Gi")
    workload(scene, "redis", **mounts("redis-data"))
    finalizers = ["resources-finalizer.argocd.argoproj.io"]
    scene.create(APPLICATIONS, "guestbook", {"spec": {"project": "default"}}, finalizers=finalizers)
    scene.run(15.0)
    scene.delete("Namespace", scene.namespace)
    return "Namespace", scene.namespace
