"""Jobs and CronJobs that do not run or have failed."""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from tests.actors.explanation.scenario import Scenario, Scene, pod_template

ENDLESS, FAILING = ["sleep", "infinity"], ["sh", "-c", "exit 3"]


def job_spec(name: str, command: list[str], **fields: Any) -> Object:
    restart = fields.pop("restart", "Never")
    template = {"container": {"image": "busybox", "command": command}, "restartPolicy": restart}
    spec, metadata = pod_template(name, **template)
    return {"template": {"metadata": metadata, "spec": spec}, **fields}


def _job(scene: Scene, name: str, command: list[str], **fields: Any) -> tuple[str, str]:
    spec = job_spec(name, command, **fields)
    scene.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec})
    return "Job", name


def cron_spec(name: str, schedule: str, command: list[str], **fields: Any) -> Object:
    job = fields.pop("job", {})
    return {"schedule": schedule, "jobTemplate": {"spec": job_spec(name, command, **job)}, **fields}


def _cron(scene: Scene, name: str, schedule: str, command: list[str], **fields: Any) -> tuple[str, str]:
    spec = cron_spec(name, schedule, command, **fields)
    scene.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec})
    return "CronJob", name


def suspended(scene: Scene) -> tuple[str, str]:
    if scene.chance.random() < 0.5:
        return _job(scene, "later", ENDLESS, suspend=True, parallelism=scene.chance.randint(1, 4))
    return _cron(scene, "later", "* * * * *", ENDLESS, suspend=True)


def backoff_limit(scene: Scene) -> tuple[str, str]:
    return _job(scene, "fails", FAILING, backoffLimit=scene.chance.randint(0, 1))


def retries(scene: Scene) -> tuple[str, str]:
    return _job(scene, "retries", FAILING, backoffLimit=20)


def job_crashes(scene: Scene) -> tuple[str, str]:
    return _job(scene, "crashes", FAILING, restart="OnFailure", backoffLimit=20)


def deadline(scene: Scene) -> tuple[str, str]:
    return _job(scene, "long", ENDLESS, activeDeadlineSeconds=scene.chance.randint(5, 20))


def managed_elsewhere(scene: Scene) -> tuple[str, str]:
    return _job(scene, "queued", ENDLESS, managedBy="kueue.x-k8s.io/multikueue")


def job_quota(scene: Scene) -> tuple[str, str]:
    hard = {"pods": "0"}
    scene.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": hard}})
    scene.run(5.0)
    return _job(scene, "quota", ENDLESS)


def forbid(scene: Scene) -> tuple[str, str]:
    return _cron(scene, "forbid", "* * * * *", ENDLESS, concurrencyPolicy="Forbid")


def missed(scene: Scene) -> tuple[str, str]:
    system = scene.stage.system
    assert system is not None
    found = _cron(scene, "missed", "*/5 * * * *", ["true"], startingDeadlineSeconds=30)
    scene.run(10.0)
    system.disable("cronjob-controller")
    scene.run(360.0)
    system.enable("cronjob-controller")
    scene.run(60.0 - scene.cluster.clock.now() % 60.0 + 5.0)
    return found


def never_due(scene: Scene) -> tuple[str, str]:
    return _cron(scene, "never", scene.chance.choice(("0 0 30 2 *", "0 0 31 4 *")), ["true"])


def cron_job_image(scene: Scene) -> tuple[str, str]:
    kind, name = _cron(scene, "image", "* * * * *", ["true"])
    container = {"name": "main", "image": "busybox:404"}
    patch = {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [container]}}}}}}
    scene.merge(kind, name, patch)
    return kind, name


SCENARIOS = (
    Scenario(name="job or cron job is suspended", code="suspended", act=suspended, wait=150.0),
    Scenario(name="job has failed", code="pod-failed", act=backoff_limit),
    Scenario(name="job retries", code="pod-failed", act=retries),
    Scenario(name="job restarts its container", code="crash-loop", act=job_crashes),
    Scenario(name="job exceeds its deadline", code="job-deadline", act=deadline),
    Scenario(name="job is managed by another controller", code="managed-elsewhere", act=managed_elsewhere),
    Scenario(name="quota forbids the pods of a job", code="quota-exceeded", act=job_quota),
    Scenario(name="previous job of a cron job runs", code="concurrency-forbids", act=forbid, wait=200.0),
    Scenario(name="cron job missed its slot", code="schedule-missed", act=missed, wait=1.0, alone=True),
    Scenario(name="schedule of a cron job has no day", code="schedule-invalid", act=never_due),
    Scenario(name="job of a cron job cannot pull its image", code="image-pull", act=cron_job_image, wait=110.0),
)
