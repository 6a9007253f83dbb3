"""CronJobs with kcm and with kube-controller-manager, on one kube-apiserver: the same Jobs, statuses
and events after each user action.
"""

from __future__ import annotations

import json
import re
import time

import pytest

from kcm.protocols.times import parse_time
from tests.e2e.conftest import in_namespace
from tests.e2e.cron_jobs import CRON_JOBS, JOBS, Scene, refuse_jobs
from tests.e2e.kubectl import Kubectl, name_of
from tests.e2e.programs import CONTROLLERS, managing
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.snapshots import Snapshot, differences, normalised

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

NAME = "cronjob-controller"
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MINUTE = re.compile(r"(?<=-)\d{8}\b")  # in names of Jobs
# Other events are recorded at each sync, and the real controller sometimes syncs with an old status.
RECORDED_ONCE = "SuccessfulCreate"


def _recently() -> float:
    """Slots from then on differ from run to run. In Unix seconds."""
    return time.time() - 3 * 86_400


def _without_recent(text: str) -> str:
    return MINUTE.sub(lambda found: found[0] if int(found[0]) * 60 < _recently() else "<minute>", text)


def found(kubectl: Kubectl) -> Snapshot:
    objects: Snapshot = {"slots": []}
    for resource in (CRON_JOBS, JOBS):
        items = kubectl.items(resource)
        for item in items:
            meta = item["metadata"]
            del meta["resourceVersion"]
            slot = meta.get("annotations", {}).get(SCHEDULED) or item.get("status", {}).get("lastScheduleTime")
            if slot and parse_time(slot) < _recently():
                objects["slots"].append(f"{name_of(item)} {slot}")
        plain = (normalised(json.loads(_without_recent(json.dumps(item))), kubectl.namespace, {}) for item in items)
        objects[resource] = sorted(json.dumps(item, indent=1, sort_keys=True) for item in plain)
    objects["events"] = event_texts(kubectl)
    return objects


def event_texts(kubectl: Kubectl) -> list[str]:
    texts = []
    for event in kubectl.items("events"):
        if event["source"].get("component") == NAME:
            count = event["count"] if event["reason"] == RECORDED_ONCE else "or more"
            of = event["involvedObject"]
            text = f"{of['kind']} {of['name']} {event['type']} {event['reason']} {event['message']} {count}"
            texts.append(str(normalised(_without_recent(text), kubectl.namespace, {})))
    return sorted(texts)


def settled(kubectl: Kubectl) -> Snapshot:
    """Return the snapshot after it was unchanged for two seconds, since events are written late."""
    before: Snapshot = {}
    for _ in range(30):
        now = found(kubectl)
        if now == before:
            return now
        before = now
        time.sleep(2.0)
    raise AssertionError(f"there is no end to the changes\n{kubectl.state()}")


def after_each_stage(kubectl: Kubectl, etcd: str) -> dict[str, Snapshot]:
    snapshots = {}
    for stage in Scene(kubectl, etcd).stages():
        stage()
        snapshots[stage.__name__] = settled(kubectl)
    return snapshots


def test_the_same_comes_of_what_users_do(real: RealServer) -> None:
    refuse_jobs(in_namespace(real.kubeconfig, "crons-refused"))
    with real_manager(real, f"--controllers={NAME}"):
        theirs = after_each_stage(in_namespace(real.kubeconfig, "crons-real"), real.etcd)
    controllers = ",".join((*CONTROLLERS, NAME))
    flags = (f"--kubeconfig={real.kubeconfig}", "--leader-elect=false", f"--controllers={controllers}")
    with managing(real.directory / "crons.log", *flags):
        ours = after_each_stage(in_namespace(real.kubeconfig, "crons-ours"), real.etcd)
    for stage, snapshot in theirs.items():
        assert not differences(snapshot, ours[stage]), f"{stage}\n{differences(snapshot, ours[stage])}"
