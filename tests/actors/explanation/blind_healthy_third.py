"""Healthy objects of the third blind trial: what people take for an incident at first, by another author.

    python -m tests.actors.explanation.blind_healthy_third

ON_HOLD names the objects that their own configuration holds.
"""

from __future__ import annotations

import sys

from tests.actors.explanation.blind_healthy import ENDS, Fine, main
from tests.actors.explanation.blind_refusals import autoscaler
from tests.actors.explanation.blind_scenario import (
    change_image,
    claim,
    cron_job,
    ingress,
    job,
    pods_of,
    service,
    static_volume,
    workload,
)
from tests.actors.explanation.scenario import Scene

ON_HOLD = frozenset(("preview-env",))
AT_REST = frozenset(("preview-env",))  # of these, they wait for nothing, so that nothing is wrong with them


def finished(scene: Scene) -> Fine:
    """Pods that have ended as they should, and that are not ready for this reason."""
    job(scene, "nightly-etl", more={"completions": 3, "parallelism": 1}, container=ENDS)
    scene.pod_owner("one-shot", kind="Pod", restartPolicy="Never", container=ENDS)
    scene.run(60.0)
    return [
        ("Job", "nightly-etl", "it is complete, and its pods are Completed"),
        ("Pod", "one-shot", "it has succeeded"),
    ]


def schedules(scene: Scene) -> Fine:
    """CronJobs whose next run is far away, or whose last run has not ended."""
    slow = {"image": "busybox:1.36", "command": ["sleep", "45"]}
    cron_job(scene, "quarterly-report", "0 6 1 */3 *", container=ENDS)
    cron_job(scene, "minutely-sync", "* * * * *", more={"concurrencyPolicy": "Forbid"}, container=slow)
    now = scene.cluster.clock.now()
    scene.run(60.0 - now % 60.0 + 75.0)
    return [
        ("CronJob", "quarterly-report", "its first run is weeks away"),
        ("CronJob", "minutely-sync", "its Job started 15 s ago, and takes 45 s"),
    ]


def moments(scene: Scene) -> Fine:
    """Objects that are on their way, at a moment at which they are not ready."""
    workload(scene, "preview-env", replicas=2)
    workload(scene, "webshop", replicas=3, annotations={"hollow.kcm.dev/ready-after-seconds": "30"})
    slow = {"hollow.kcm.dev/terminate-after-seconds": "30"}
    workload(scene, "worker", annotations=slow, terminationGracePeriodSeconds=60)
    scene.run(60.0)
    scene.merge("Deployment", "preview-env", {"spec": {"replicas": 0}})
    scene.run(20.0)
    change_image(scene, "Deployment", "webshop", "nginx:1.28")
    ending = pods_of(scene, "worker")[0]["metadata"]["name"]
    scene.delete("Pod", ending)
    scene.run(9.0)
    setup = {"name": "fetch-assets", "image": "busybox:1.36", "command": ["sleep", "20"]}
    scene.pod_owner("just-started", kind="Pod", initContainers=[setup])
    scene.run(3.0)
    return [
        ("Deployment", "preview-env", "it is scaled to 0 for the night"),
        ("Deployment", "webshop", "its rollout began 12 s ago, and each pod takes 30 s"),
        ("Pod", ending, "it is within its grace period of 60 s"),
        ("Pod", "just-started", "its init container started 3 s ago"),
    ]


def surroundings(scene: Scene) -> Fine:
    """Objects around pods: an autoscaler without load, a volume that is too large, a dedicated node, an Ingress."""
    workload(scene, "idle-api", replicas=2, container={"resources": {"requests": {"cpu": "100m"}}})
    service(scene, "idle-api")
    autoscaler(scene, "idle-api", "idle-api")
    ingress(scene, "public", "idle-api", 80)
    address = {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}
    scene.merge("Ingress", "public", {"status": address}, subresource="status")
    static_volume(scene, "large-disk", "500Gi", storageClassName="leftovers")
    claim(scene, "small-ask", "5Gi", storageClassName="leftovers")
    taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    scene.merge("Node", "hollow-node-2", {"spec": {"taints": [taint]}})
    scene.run(120.0)
    return [
        ("HorizontalPodAutoscaler", "idle-api", "the load is low, so it stays at its minimum"),
        ("Ingress", "public", "its backend has two ready pods"),
        ("PersistentVolumeClaim", "small-ask", "it is bound to a larger volume"),
        ("Node", "hollow-node-2", "it is dedicated to batch pods, and ready"),
    ]


MAKERS = (finished, schedules, moments, surroundings)

if __name__ == "__main__":
    sys.exit(main(MAKERS))
