"""Jobs with all kinds of specs, and their expected conditions."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.manifests import job
from tests.e2e.programs import until
from tests.e2e.snapshots import Snapshot, normalised

CHANCE = ("managedFields", "resourceVersion")  # of pods: kubelets have their part in it
FOREVER = "sleep 1000"
COMPLETED = ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"]
BY_INDEX = '[ "$JOB_COMPLETION_INDEX" = 1 ] && exit 1; exit 0'


def failed(reason: str) -> list[str]:
    return [f"FailureTarget {reason}", f"Failed {reason}"]


def script_job(name: str, script: str, *, restart: str = "Never", **spec: Any) -> Object:
    """Return a Job whose pods run a shell script."""
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    pod = {"restartPolicy": restart, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return job(name, pod=pod, **spec)


def on_exit(code: int, action: str) -> Object:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [code]}}
    return {"rules": [rule]}


JOBS: tuple[tuple[Object, list[str]], ...] = (
    (script_job("plain", "exit 0", completions=3, parallelism=2), COMPLETED),
    (script_job("any", "exit 0", parallelism=2), COMPLETED),
    (script_job("indexed", "exit 0", completions=4, parallelism=2, completionMode="Indexed"), COMPLETED),
    (script_job("fails", "exit 1", backoffLimit=0), failed("BackoffLimitExceeded")),
    (
        script_job("each", BY_INDEX, completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=0),
        failed("FailedIndexes"),
    ),
    (
        script_job(
            "few",
            f'[ "$JOB_COMPLETION_INDEX" = 1 ] && exit 1; {FOREVER}',
            completions=3,
            parallelism=3,
            completionMode="Indexed",
            backoffLimitPerIndex=0,
            maxFailedIndexes=0,
        ),
        failed("MaxFailedIndexesExceeded"),
    ),
    (
        script_job(
            "enough",
            f'[ "$JOB_COMPLETION_INDEX" = 0 ] && exit 0; {FOREVER}',
            completions=3,
            parallelism=3,
            completionMode="Indexed",
            successPolicy={"rules": [{"succeededIndexes": "0"}]},
        ),
        ["SuccessCriteriaMet SuccessPolicy", "Complete SuccessPolicy"],
    ),
    (script_job("hopeless", "exit 42", podFailurePolicy=on_exit(42, "FailJob")), failed("PodFailurePolicy")),
    (script_job("late", FOREVER, activeDeadlineSeconds=3), failed("DeadlineExceeded")),
    (script_job("restarts", "exit 1", restart="OnFailure", backoffLimit=1), failed("BackoffLimitExceeded")),
    (script_job("asleep", "exit 0", suspend=True), ["Suspended JobSuspended"]),
    (script_job("woken", "exit 0", suspend=True), ["Suspended=False JobResumed", *COMPLETED]),
    (script_job("halted", FOREVER, parallelism=2), ["Suspended JobSuspended"]),
    (script_job("fewer", FOREVER, parallelism=3, completions=5), []),
    (script_job("elastic", FOREVER, parallelism=2, completions=2, completionMode="Indexed"), []),
    (script_job("theirs", "exit 0", managedBy="example.com/tests"), []),
)


def scene(kubectl: Kubectl) -> None:
    kubectl.apply(*(made for made, _ in JOBS))
    until(lambda: active(kubectl, "halted") == 2 and active(kubectl, "fewer") == 3, "they run", why=kubectl.state)
    until(lambda: conditions(kubectl, "woken"), "it is suspended", why=kubectl.state)
    until(lambda: active(kubectl, "elastic") == 2, "both run", why=kubectl.state)
    change(kubectl, "halted", suspend=True)
    change(kubectl, "woken", suspend=False)
    change(kubectl, "fewer", parallelism=1)
    change(kubectl, "elastic", parallelism=3, completions=3)
    wanted = {made["metadata"]["name"]: end for made, end in JOBS}
    until(
        lambda: {name: conditions(kubectl, name) for name in wanted} == wanted,
        "all have the expected conditions",
        why=lambda: "\n".join(f"{name}: {conditions(kubectl, name)} not {wanted[name]}" for name in wanted),
    )
    until(
        lambda: active(kubectl, "elastic") == 3 and active(kubectl, "fewer") == 1,
        "the new parallelism is reached",
        why=kubectl.state,
    )
    until(lambda: not any(tracked(kubectl, name) for name in ended(wanted)), "all are counted", why=kubectl.state)


def ended(wanted: dict[str, list[str]]) -> list[str]:
    return [name for name, end in wanted.items() if end and end[-1].startswith(("Complete", "Failed"))]


def tracked(kubectl: Kubectl, name: str) -> list[Object]:
    return [pod for pod in kubectl.items("pods", f"app={name}") if pod["metadata"].get("finalizers")]


def change(kubectl: Kubectl, name: str, **spec: Any) -> None:
    kubectl("patch", "job", name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def active(kubectl: Kubectl, name: str) -> int:
    status = kubectl.get("batch/v1/jobs", name).get("status") or {}
    return int(status.get("active", 0)) if status.get("ready", 0) == status.get("active", 0) else -1


def conditions(kubectl: Kubectl, name: str) -> list[str]:
    status = kubectl.get("batch/v1/jobs", name).get("status") or {}
    found = []
    for condition in status.get("conditions", ()):
        suffix = "" if condition["status"] == "True" else f"={condition['status']}"
        found.append(f"{condition['type']}{suffix} {condition.get('reason', '')}")
    return found


def left(kubectl: Kubectl) -> Snapshot:
    """Return the specs, statuses, pods and events of the Jobs, without what kubelets write."""
    time.sleep(3)  # the last events
    found: dict[str, list[Object]] = {"jobs": [], "pods": [], "events": []}
    for item in kubectl.items("batch/v1/jobs"):
        found["jobs"].append({"name": item["metadata"]["name"], "spec": item["spec"], "status": item.get("status")})
    for pod in kubectl.items("pods"):
        meta = {name: value for name, value in pod["metadata"].items() if name not in CHANCE}
        meta["labels"] = {name: value for name, value in meta["labels"].items() if "topology" not in name}
        found["pods"].append({"metadata": meta, "spec": pod["spec"], "phase": pod["status"]["phase"]})
    for event in kubectl.items("events"):
        if event["source"].get("component") == "job-controller":
            fields = {name: event[name] for name in ("type", "reason", "message", "count")}
            found["events"].append({**fields, "of": event["involvedObject"]["name"]})
    return {
        what: sorted(_text(normalised(entry, kubectl.namespace, {})) for entry in some) for what, some in found.items()
    }


def _text(value: Object) -> str:
    return json.dumps(value, sort_keys=True)
