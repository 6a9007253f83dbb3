"""Healthy cluster with a thousand objects of all kinds, in which nothing may be reported.

python -m tests.actors.explanation.healthy
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from kcm.actors.explanation.cause import Explanation
from kcm.actors.explanation.evidence import Evidence
from kcm.actors.explanation.explain import explain
from kcm.actors.explanation.kinds import KINDS
from kcm.actors.explanation.text import text_of
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.objects import Key, Object, key_of
from kcm.protocols.resources import Resource
from tests.actors.explanation.scenario import pod_template
from tests.actors.explanation.stage import Stage, StoreReader

TEAMS = 14  # namespaces with workloads
SETTLED = 180.0  # seconds until the cluster is healthy


class SnapshotReader(StoreReader):
    """Reader that reads each list once."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.cluster)
        self._lists: dict[tuple[str, str], Sequence[Object]] = {}

    def list(self, resource: Resource, namespace: str, *, most: int) -> Sequence[Object]:
        place = (resource.id, namespace)
        if place not in self._lists:
            self._lists[place] = super().list(resource, namespace, most=most)
        return self._lists[place]


def workload(kind: str, name: str, *, replicas: int = 2, **more: object) -> Object:
    spec, metadata = pod_template(name)
    template = {"metadata": metadata, "spec": spec}
    body: Object = {"selector": {"matchLabels": {"app": name}}, "template": template, **more}
    if kind != "DaemonSet":
        body["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def team(name: str) -> Iterator[Object]:
    """Yield the objects of one team."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    yield workload("Deployment", "web", replicas=4)
    yield workload("Deployment", "api", replicas=3, minReadySeconds=5)
    yield workload("Deployment", "off", replicas=0)
    yield workload("Deployment", "held", replicas=1, paused=False)
    yield workload("DaemonSet", "agent")
    yield workload("StatefulSet", "db", serviceName="db")
    yield workload("ReplicaSet", "bare", replicas=2)
    job = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}}
    yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "import"}, "spec": job}
    schedule = {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job}}
    yield {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report"}, "spec": schedule}
    yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim}
    ports = [{"port": 80}]
    for service in ("web", "api", "db"):
        spec: Object = {"selector": {"app": service}, "ports": ports}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": {"name": service}, "spec": spec}
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    yield {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget}
    hard = {"pods": "100", "services": "20"}
    yield {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": hard}}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    rules = [{"host": f"{name}.example.com", "http": {"paths": paths}}]
    yield {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "web"},
        "spec": {"rules": rules},
    }
    for number in range(20):
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"settings-{number}"}, "data": {"a": "b"}}
    for number in range(5):
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"secret-{number}"}}


def healthy_stage(*, teams: int = TEAMS, seed: int = 0) -> Stage:
    """Return a stage on which all workloads run and all jobs are done."""
    stage = Stage(seed=seed, nodes=6)
    for number in range(teams):
        name = f"team-{number}"
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        stage.run(1.0)
        for obj in team(name):
            stage.apply({**obj, "metadata": {"namespace": name, **obj["metadata"]}})
    return stage


def objects_of(stage: Stage) -> Iterator[tuple[Resource, Key]]:
    """Yield the resource and key of each object of all kinds."""
    for known in KINDS:
        try:
            for obj in stage.cluster.list(known.resource):
                yield known.resource, key_of(obj)
        except CommandError:  # this kind is not served
            continue


def explain_all(stage: Stage) -> list[Explanation]:
    reader, now = SnapshotReader(stage), stage.cluster.clock.now()
    assert stage.system is not None
    view = stage.system.view()
    return [
        explain(resource, key, Evidence(reader, now=now, manager=view)) for resource, key in list(objects_of(stage))
    ]


def observe(*, teams: int, seed: int = 0) -> dict[str, list[Explanation]]:
    """Return the explanations of all objects: of new ones, at rest, in a rollout of everything, and at rest again."""
    found: dict[str, list[Explanation]] = {}
    with healthy_stage(teams=teams, seed=seed) as stage:
        stage.run(2.0)
        found["created"] = explain_all(stage)
        stage.run(SETTLED)
        found["settled"] = explain_all(stage)
        for number in range(teams):
            for kind, name in (("deployment", "web"), ("daemonset", "agent"), ("statefulset", "db")):
                container = {"name": "main", "image": "nginx:1.28"}
                template = {"spec": {"containers": [container]}}
                stage.merge(kind, f"team-{number}/{name}", {"spec": {"template": template}})
        stage.run(3.0)
        found["rolling"] = explain_all(stage)
        stage.run(SETTLED)
        found["settled again"] = explain_all(stage)
    return found


def main() -> int:
    logging.disable(logging.CRITICAL)
    wrong = 0
    for title, found in observe(teams=TEAMS).items():
        verdicts = Counter(explanation.verdict for explanation in found)
        print(f"{title}: {len(found)} objects: {dict(verdicts)}")
        for explanation in found:
            if explanation.verdict == "stuck":
                wrong += 1
                print(text_of(explanation))
    print(f"{wrong} false reports")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
