"""Jobs that finish without anybody who runs them, as manifests and patches."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.e2e.kubectl import Kubectl, Object


def job(name: str, ttl: int | None) -> Object:
    """Another manager's: nobody runs it here."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    spec: Object = {"managedBy": "example.com/tests", "template": {"spec": pod}}
    if ttl is not None:
        spec["ttlSecondsAfterFinished"] = ttl
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def finish(kubectl: Kubectl, name: str, *, failed: bool = False) -> None:
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    told = {"status": "True", "lastTransitionTime": at, "lastProbeTime": at, "reason": "Tests", "message": "over"}
    kinds = ("FailureTarget", "Failed") if failed else ("SuccessCriteriaMet", "Complete")
    status: Object = {"startTime": at, "conditions": [{"type": kind, **told} for kind in kinds]}
    if not failed:
        status |= {"completionTime": at, "succeeded": 1}
    kubectl("patch", "job", name, "--subresource=status", "--type=merge", f"--patch={json.dumps({'status': status})}")


def left(kubectl: Kubectl) -> dict[str, tuple[bool, list[str]]]:
    """Of each Job whether it is being deleted, and its finalizers."""
    found = {one["metadata"]["name"]: one["metadata"] for one in kubectl.items("batch/v1/jobs")}
    return {name: ("deletionTimestamp" in meta, meta.get("finalizers", [])) for name, meta in found.items()}


def scene(kubectl: Kubectl) -> None:
    kubectl.apply(job("now", 0), job("failed", 1), job("later", 600), job("never", None), job("running", 0))
    for name in ("now", "later", "never"):
        finish(kubectl, name)
    finish(kubectl, "failed", failed=True)
