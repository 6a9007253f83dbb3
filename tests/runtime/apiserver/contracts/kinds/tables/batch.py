"""Jobs and CronJobs."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts.kinds.play import Kind, Table

ROOT = "/apis/batch/v1/namespaces/contract"
POD = {"containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never"}
TEMPLATE = {"spec": POD}
MATCH = {"matchLabels": {"a": "b"}}


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _template(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {**POD, **fields}}}}


def _failing(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"podFailurePolicy": {"rules": list(rules)}}}


def _success(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"completionMode": "Indexed", "completions": 5, "successPolicy": {"rules": list(rules)}}}


CODES = {"operator": "In", "values": [1]}

JOB_CREATES: dict[str, Any] = {
    "no template": _spec(template=None),
    "restarting always": _template(restartPolicy="Always"),
    "no restart policy": _template(restartPolicy=""),
    "an unknown restart policy": _template(restartPolicy="Sometimes"),
    "no containers": _template(containers=[]),
    "negative numbers": _spec(
        parallelism=-1, completions=-1, activeDeadlineSeconds=-1, backoffLimit=-1, ttlSecondsAfterFinished=-1
    ),
    "an unknown mode": _spec(completionMode="Sideways"),
    "an index without completions": _spec(completionMode="Indexed", parallelism=2),
    "an index": _spec(completionMode="Indexed", completions=3, parallelism=3),
    "many completions": _spec(completionMode="Indexed", completions=200_000, parallelism=200_000),
    "many at once": _spec(completionMode="Indexed", completions=2, parallelism=200_000),
    "a long indexed name": {"metadata": {"name": "a" * 63}, **_spec(completionMode="Indexed", completions=3)},
    "a limit an index": _spec(completionMode="Indexed", completions=3, backoffLimitPerIndex=1, maxFailedIndexes=2),
    "a limit without an index": _spec(backoffLimitPerIndex=1),
    "failed indexes without a limit": _spec(completionMode="Indexed", completions=3, maxFailedIndexes=2),
    "many failed indexes": _spec(completionMode="Indexed", completions=3, backoffLimitPerIndex=1, maxFailedIndexes=5),
    "negative limits": _spec(completionMode="Indexed", completions=3, backoffLimitPerIndex=-1, maxFailedIndexes=-1),
    "a selector of its own": _spec(selector=MATCH),
    "a manual selector": _spec(
        manualSelector=True, selector=MATCH, template={"metadata": {"labels": {"a": "b"}}, "spec": POD}
    ),
    "a manual selector of others": _spec(manualSelector=True, selector=MATCH),
    "no manual selector": _spec(manualSelector=True),
    "labels of its own": _spec(template={"metadata": {"labels": {"job-name": "other"}}, "spec": POD}),
    "suspended": _spec(suspend=True),
    "a replacement policy": _spec(podReplacementPolicy="Failed"),
    "an unknown replacement policy": _spec(podReplacementPolicy="Never"),
    "managed by another": _spec(managedBy="example.com/a"),
    "managed by nobody": _spec(managedBy="a b"),
    "managed by a long name": _spec(managedBy=f"example.com/{'a' * 60}"),
    "a failure policy": _failing({"action": "FailJob", "onExitCodes": CODES}),
    "a failure policy of conditions": _failing(
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ),
    "an unknown action": _failing({"action": "Sing", "onExitCodes": CODES}),
    "no action": _failing({"onExitCodes": CODES}),
    "a rule of nothing": _failing({"action": "Ignore"}),
    "a rule of both": _failing(
        {"action": "Ignore", "onExitCodes": CODES, "onPodConditions": [{"type": "A", "status": "True"}]}
    ),
    "odd codes": _failing({"action": "Ignore", "onExitCodes": {"operator": "Near", "values": []}}),
    "codes out of order": _failing({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3, 1, 1, 0]}}),
    "codes of an unknown container": _failing({"action": "Ignore", "onExitCodes": {**CODES, "containerName": "none"}}),
    "an odd condition": _failing({"action": "Ignore", "onPodConditions": [{"type": "-", "status": "Perhaps"}]}),
    "a failing index without an index": _failing({"action": "FailIndex", "onExitCodes": CODES}),
    "a failure policy with restarts": {
        "spec": {
            "template": {"spec": {"restartPolicy": "OnFailure"}},
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": CODES}]},
        }
    },
    "a success policy": _success({"succeededCount": 2}),
    "a success policy of indexes": _success({"succeededIndexes": "0-2,4", "succeededCount": 2}),
    "no success rules": _success(),
    "an empty success rule": _success({}),
    "odd indexes": _success({"succeededIndexes": "3-1,x"}),
    "indexes out of range": _success({"succeededIndexes": "0-9"}),
    "too many successes": _success({"succeededCount": 9}),
    "a negative count": _success({"succeededCount": -1}),
    "a success policy without an index": _spec(successPolicy={"rules": [{"succeededCount": 1}]}),
}


def _schedule(text: str) -> dict[str, Any]:
    return _spec(schedule=text)


TABLE: Table = {
    "jobs": Kind(
        f"{ROOT}/jobs",
        {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE}},
        creates=JOB_CREATES,
        updates={
            "parallelism": _spec(parallelism=5),
            "completions": _spec(completions=5),
            "suspended": _spec(suspend=True),
            "another selector": _spec(selector=MATCH),
            "another template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "a"}]}}}},
            "another mode": _spec(completionMode="Indexed"),
            "a limit": _spec(backoffLimit=2),
            "a limit an index": _spec(backoffLimitPerIndex=2),
            "a failure policy": _failing({"action": "FailJob", "onExitCodes": CODES}),
            "managed by another": _spec(managedBy="example.com/a"),
            "a node selector": {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
            "a negative number": _spec(parallelism=-1),
        },
        statuses={
            "counts": {"status": {"active": 1, "ready": 0, "startTime": "2026-01-01T00:00:00Z"}},
            "negative counts": {
                "status": {"active": -1, "succeeded": -1, "failed": -1, "ready": -1, "terminating": -1}
            },
            "complete and failed": {
                "status": {
                    "conditions": [
                        {"type": "Complete", "status": "True"},
                        {"type": "Failed", "status": "True"},
                    ]
                }
            },
            "complete at no time": {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
            "indexes without an index": {"status": {"completedIndexes": "0", "failedIndexes": "1"}},
        },
    ),
    "cronjobs": Kind(
        f"{ROOT}/cronjobs",
        {
            "metadata": {"name": "c"},
            "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}},
        },
        creates={
            "nothing": {"spec": None},
            "no schedule": _schedule(""),
            **{
                f"schedule {text!r}": _schedule(text)
                for text in (
                    *("foo", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *"),
                    *(
                        "* * * 13 *",
                        "* * * * 7",
                        "* * * * 8",
                        "*/0 * * * *",
                        "5-1 * * * *",
                        "a * * * *",
                        "1,2,x * * * *",
                    ),
                    *(
                        "* * * jan sun",
                        "0 0 1 JAN-MAR MON-FRI",
                        "@hourly",
                        "@daily",
                        "@every 1h30m",
                        "@every 5",
                        "@sun",
                    ),
                    *("TZ=UTC * * * * *", "CRON_TZ=UTC * * * * *", "TZ=Nowhere * * * * *", "TZ=UTC", "?/5 * ? * ?"),
                    *(
                        "0 0 31 2 *",
                        "1-5/2 * * * *",
                        "1--5 * * * *",
                        "1/2/3 * * * *",
                        "-1 * * * *",
                        " 1 1 1 1 1 ",
                        "@reboot",
                    ),
                    *("@every -5m", "99999999999 * * * *", "* * * * mon#1", "* * L * *"),
                )
            },
            "a time zone": _spec(timeZone="Europe/Berlin"),
            "an unknown time zone": _spec(timeZone="Nowhere/Land"),
            "an empty time zone": _spec(timeZone=""),
            "the local time zone": _spec(timeZone="Local"),
            "a zone with its area in capitals": _spec(timeZone="EUROPE/BERLIN"),
            "an odd zone": _spec(timeZone="../x"),
            "a zone with spaces": _spec(timeZone=" Europe/Berlin"),
            "two time zones": _spec(timeZone="Europe/Berlin", schedule="TZ=UTC * * * * *"),
            "a long name": {"metadata": {"name": "a" * 53}},
            "an unknown concurrency policy": _spec(concurrencyPolicy="Maybe"),
            "negative numbers": _spec(
                startingDeadlineSeconds=-1, successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-1
            ),
            "restarting always": {
                "spec": {"jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}}
            },
            "a manual selector": {"spec": {"jobTemplate": {"spec": {"manualSelector": True}}}},
            "a selector": {"spec": {"jobTemplate": {"spec": {"selector": MATCH}}}},
            "a negative number of the job": {"spec": {"jobTemplate": {"spec": {"parallelism": -1}}}},
            "no job": _spec(jobTemplate=None),
        },
        updates={
            "another schedule": _schedule("0 * * * *"),
            "an odd schedule": _schedule("foo"),
            "a schedule with its zone": _schedule("TZ=UTC * * * * *"),
            "a zone": _spec(timeZone="Asia/Tokyo"),
            "suspended": _spec(suspend=True),
        },
        statuses={"a time": {"status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}}},
    ),
}
