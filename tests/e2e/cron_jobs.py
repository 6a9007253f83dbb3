"""CronJobs of every kind and user actions on them. All but one have slots that are months old, so that no test waits.

No kubelet runs the Jobs. Objects that no server accepts and fields that users cannot set are written into etcd.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from kcm.protocols.times import format_time, parse_time
from tests.e2e.finished_jobs import finish
from tests.e2e.kubectl import Kubectl, Object, name_of, uid_of
from tests.e2e.programs import until

CRON_JOBS, JOBS = "batch/v1/cronjobs", "batch/v1/jobs"
LONG_AGO = "2024-06-01T00:00:00Z"
YEARLY, AN_HOUR_LATER = "0 5 1 1 *", "0 6 1 1 *"
NEVER = "59 23 31 2 *"
REFUSED = "refused"  # the prefix of Jobs that a policy refuses
IN_TEMPLATE = {"metadata": {"labels": {"a": "b"}, "annotations": {"x": "y"}}}


def cron_job(name: str, schedule: str = YEARLY, **spec: Any) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    whole = {"schedule": schedule, "jobTemplate": {**IN_TEMPLATE, "spec": {"template": {"spec": pod}}}, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": whole}


DUE = (
    cron_job("plain"),
    cron_job("named", "@yearly"),
    cron_job("berlin", timeZone="Europe/Berlin"),
    cron_job("katmandu", timeZone="Asia/Kathmandu"),
    cron_job("allow", concurrencyPolicy="Allow"),
    cron_job("forbid", concurrencyPolicy="Forbid"),
    cron_job("replace", concurrencyPolicy="Replace"),
    cron_job("in-time", startingDeadlineSeconds=200_000_000),
    cron_job("kept", successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0),
    cron_job("lost"),
)
NOT_STARTED = (
    cron_job("late", startingDeadlineSeconds=10),
    cron_job("suspended", suspend=True),
    cron_job("theirs"),
    cron_job(f"{REFUSED}-by-policy"),
    cron_job("never", NEVER),
    cron_job("january", "0 0 * 1 *", startingDeadlineSeconds=3),
)
HALF_AN_HOUR_AWAY = (time.gmtime().tm_min + 30) % 60
OFTEN = tuple(cron_job(name, f"{HALF_AN_HOUR_AWAY} * * * *") for name in ("many", "few"))
ODD = (
    cron_job("words", "every now and then"),
    cron_job("half", "TZ=UTC"),
    cron_job("zoned", f"TZ=Asia/Tokyo {YEARLY}"),
    cron_job("twice-zoned", f"CRON_TZ=Asia/Tokyo {YEARLY}", timeZone="Europe/Berlin"),
    cron_job("misplaced", f"TZ=Mars/Base {YEARLY}"),
    cron_job("nowhere", timeZone="Mars/Base"),
    cron_job("outside", timeZone="../Europe/Berlin"),
    cron_job("every", "@every 100h"),
)
TICKING = cron_job("ticking", "* * * * *", concurrencyPolicy="Forbid")
POLICY = "refuse-jobs-of-tests"


def refuse_jobs(kubectl: Kubectl) -> None:
    """Refuse Jobs whose names have the prefix, in all namespaces."""
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
    validation = {"expression": f"!object.metadata.name.startsWith('{REFUSED}-')", "message": "not today"}
    version = "admissionregistration.k8s.io/v1"
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation], "failurePolicy": "Fail"}
    binding = {"policyName": POLICY, "validationActions": ["Deny"]}
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        kubectl.apply({"apiVersion": version, "kind": kind, "metadata": {"name": POLICY}, "spec": spec})

    def is_refused() -> bool:
        tried = kubectl.run("create", "job", f"{REFUSED}-probe", "--image=i", "--dry-run=server")
        return "not today" in tried.stderr

    until(is_refused, "the policy is in force")


class Scene:
    """Cluster with CronJobs. etcd: URL of the server's etcd."""

    def __init__(self, kubectl: Kubectl, etcd: str) -> None:
        self.kubectl, self._etcd = kubectl, etcd

    def stages(self) -> tuple[Callable[[], None], ...]:
        first = self.started, self.started_again, self.ended, self.often
        return *first, self.odd, self.rescheduled, self.gone, self.ticks

    def started(self) -> None:
        """The slots of this year, at once, as the last ones lie long ago."""
        taken = f"theirs-{_minute(time.strftime('%Y-01-01T05:00:00Z', time.gmtime()))}"
        self.kubectl.apply(job_of(taken), *DUE, *NOT_STARTED)
        for each in (*DUE, *NOT_STARTED):
            self.last_was(name_of(each), LONG_AGO)
        for each in DUE:
            self.until_active(name_of(each), 1)
        self.until_told(f"{REFUSED}-by-policy", "FailedCreate")
        self.until_told("never", "InvalidSchedule")

    def started_again(self) -> None:
        """A second slot, while the Job of the first runs."""
        for name in ("allow", "forbid", "replace"):
            self.change(name, schedule=AN_HOUR_LATER)
        self.change("suspended", suspend=False)
        time.sleep(2.0)  # a change of the schedule alone starts nothing
        for name in ("allow", "forbid", "replace"):
            self.kubectl("label", "cronjob", name, "touched=yes")
        self.until_active("allow", 2)
        self.until_told("forbid", "JobAlreadyActive")
        self.until_told("replace", "SuccessfulDelete")
        self.until_active("replace", 1)
        self.until_active("suspended", 1)

    def ended(self) -> None:
        for name in ("forbid", "plain", "suspended"):
            (job,) = self.jobs(name)
            finish(self.kubectl, job, failed=name == "suspended")
        until(lambda: len(self.jobs("forbid")) == 2, "what had to wait is started", why=self.kubectl.state)
        self.until_active("plain", 0)
        self.until_active("suspended", 0)
        (job,) = self.jobs("lost")
        self.kubectl("delete", "job", job)
        self.until_told("lost", "MissingJob")
        (job,) = self.jobs("kept")
        finish(self.kubectl, job)
        self.until_active("kept", 0)
        for number, failed in enumerate((True, False)):
            name = f"kept-by-hand-{number}"
            self.kubectl.apply(job_of(name, owner=self.uid("kept")))
            self.until_told("kept", "UnexpectedJob", name)
            finish(self.kubectl, name, failed=failed)
            self.until_told("kept", "SuccessfulDelete", name if failed else job)

    def often(self) -> None:
        """More than a hundred slots that were missed, and fewer."""
        self.kubectl.apply(*OFTEN)
        for name, days in (("many", 10), ("few", 1)):
            self.last_was(name, format_time(time.time() - days * 86_400))
            self.until_active(name, 1)

    def odd(self) -> None:
        """Store CronJobs that a server refuses today, but older ones accepted."""
        for each in ODD:
            plain = {**each, "spec": {**each["spec"], "schedule": NEVER, "suspend": True, "timeZone": None}}
            self.kubectl.apply(plain)
        time.sleep(1.0)
        for each in ODD:
            self.force(name_of(each), {"suspend": False, **each["spec"]}, creationTimestamp=LONG_AGO)
        time.sleep(1.0)
        for each in ODD:
            self.force(name_of(each), labels={"touched": "yes"})
        for name in ("zoned", "twice-zoned", "every"):
            self.until_active(name, 1)
        for name in ("words", "half", "misplaced"):
            self.until_told(name, "UnparseableSchedule")
        for name in ("nowhere", "outside"):
            self.until_told(name, "UnknownTimeZone")

    def rescheduled(self) -> None:
        self.force("plain", {"schedule": "now"})
        self.until_told("plain", "UnParseableCronJobSchedule")
        self.force("plain", {"schedule": YEARLY})

    def gone(self) -> None:
        """Delete CronJobs. One that waits for its Jobs starts none, and still tracks them."""
        self.kubectl("delete", "cronjob", "allow", "--cascade=foreground", "--wait=false")
        self.change("allow", schedule="0 7 1 1 *")
        finish(self.kubectl, self.jobs("allow")[0])
        self.until_active("allow", 1)
        self.kubectl("delete", "cronjob", "berlin")

    def ticks(self) -> None:
        """One of the clock's own."""
        self.kubectl.apply(TICKING)
        until(lambda: self.status("ticking").get("active"), "a minute begins", within=100.0, why=self.kubectl.state)
        (job,) = self.jobs("ticking")
        assert f"ticking-{_minute(self.status('ticking')['lastScheduleTime'])}" == job
        self.change("ticking", suspend=True)
        finish(self.kubectl, job)
        self.until_active("ticking", 0)

    def uid(self, name: str) -> str:
        return uid_of(self.kubectl.get(CRON_JOBS, name))

    def status(self, name: str) -> Object:
        status: Object = self.kubectl.get(CRON_JOBS, name).get("status") or {}
        return status

    def jobs(self, of: str) -> list[str]:
        """Names, those of earlier slots first."""
        uid = self.uid(of)
        return sorted(name_of(job) for job in self.kubectl.items(JOBS) if uid in str(job["metadata"]))

    def change(self, name: str, **spec: Any) -> None:
        self.kubectl("patch", "cronjob", name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    def last_was(self, name: str, at: str) -> None:
        patch = json.dumps({"status": {"lastScheduleTime": at}})
        self.kubectl("patch", "cronjob", name, "--subresource=status", "--type=merge", f"--patch={patch}")

    def until_active(self, name: str, number: int) -> None:
        until(
            lambda: len(self.status(name).get("active", ())) == number,
            f"{name} has {number} active Jobs",
            why=self.kubectl.state,
        )

    def until_told(self, name: str, reason: str, text: str = "") -> None:
        def is_told() -> bool:
            return any(
                (event["involvedObject"]["name"], event["reason"]) == (name, reason) and text in event["message"]
                for event in self.kubectl.items("events")
            )

        until(is_told, f"{reason} of {name}", why=self.kubectl.state)

    def force(self, name: str, spec: Object | None = None, **meta: Any) -> None:
        """Change the stored object in etcd, without validation by the server."""
        stored = self.kubectl.get(CRON_JOBS, name)
        metadata = {key: value for key, value in stored["metadata"].items() if key != "resourceVersion"}
        known = {"apiVersion": "batch/v1", "kind": "CronJob"}
        stored = {**known, **stored, "metadata": metadata | meta, "spec": stored["spec"] | (spec or {})}
        key, value = (
            base64.b64encode(text.encode()).decode()
            for text in (f"/registry/cronjobs/{self.kubectl.namespace}/{name}", json.dumps(stored))
        )
        body = json.dumps({"key": key, "value": value}).encode()
        with urllib.request.urlopen(f"{self._etcd}/v3/kv/put", body, timeout=10.0):
            pass


def job_of(name: str, *, owner: str = "") -> Object:
    """Return a Job of a CronJob. owner: uid of the CronJob."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    meta: Object = {"name": name}
    if owner:
        reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "kept", "uid": owner, "controller": True}
        meta["ownerReferences"] = [reference]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": pod}}}


def _minute(at: str) -> int:
    """Return the number of minutes since the epoch."""
    return int(parse_time(at)) // 60
