"""CronJobs through kubectl: Jobs are started in time, recorded in events, kept up to a limit, and suspended."""

from __future__ import annotations

import pytest

from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.programs import until

TICKS = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: ticks}
spec:
  schedule: "@every 2s"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: tick, image: busybox, command: ["true"]}]
"""


@pytest.mark.parametrize("site", ["own_cluster"], indirect=True)
def test_a_cron_job_starts_a_job_in_time_and_keeps_no_more_than_it_may(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=TICKS)  # a Job is named after its minute, so that there is one in each

    def status() -> Object:
        found: Object = kubectl.get("batch/v1/cronjobs", "ticks").get("status", {})
        return found

    until(lambda: "lastSuccessfulTime" in status(), "a Job was started and has completed", why=kubectl.state)
    kubectl("patch", "cronjob", "ticks", "--patch", '{"spec": {"suspend": true}}')
    until(lambda: not status().get("active"), "none runs", why=kubectl.state)
    assert kubectl.items("batch/v1/jobs")
    (line,) = kubectl("get", "cronjobs", "--no-headers").splitlines()
    assert line.split()[:6] == ["ticks", "@every", "2s", "<none>", "True", "0"]

    kubectl("patch", "cronjob", "ticks", "--patch", '{"spec": {"successfulJobsHistoryLimit": 0}}')
    until(lambda: not kubectl.items("batch/v1/jobs"), "no Job is kept", why=kubectl.state)
    events = kubectl("get", "events", "--field-selector=involvedObject.kind=CronJob", "--output=jsonpath={..reason}")
    assert {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"} <= set(events.split())

    kubectl("create", "job", "by-hand", "--from=cronjob/ticks")
    kubectl("wait", "job/by-hand", "--for=condition=Complete", "--timeout=60s")
    kubectl("delete", "cronjob", "ticks")
    until(lambda: not kubectl.items("batch/v1/jobs"), "its Jobs go with it", why=kubectl.state)
