"""Jobs of an external controller, and patches that finish them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.manifests import job


def external_job(name: str, ttl: int | None) -> Object:
    """Return a Job of an external controller, which does not run here. ttl: its ttlSecondsAfterFinished."""
    limit = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    return job(name, managedBy="example.com/tests", **limit)


def finish(kubectl: Kubectl, name: str, *, failed: bool = False) -> None:
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shared = {"status": "True", "lastTransitionTime": at, "lastProbeTime": at, "reason": "Tests", "message": "over"}
    kinds = ("FailureTarget", "Failed") if failed else ("SuccessCriteriaMet", "Complete")
    status: Object = {"startTime": at, "conditions": [{"type": kind, **shared} for kind in kinds]}
    if not failed:
        status |= {"completionTime": at, "succeeded": 1}
    kubectl("patch", "job", name, "--subresource=status", "--type=merge", f"--patch={json.dumps({'status': status})}")


def left(kubectl: Kubectl) -> dict[str, tuple[bool, list[str]]]:
    """Return for each Job whether it is being deleted, and its finalizers."""
    found = {job["metadata"]["name"]: job["metadata"] for job in kubectl.items("batch/v1/jobs")}
    return {name: ("deletionTimestamp" in meta, meta.get("finalizers", [])) for name, meta in found.items()}


def scene(kubectl: Kubectl) -> None:
    seconds = {"now": 0, "failed": 1, "later": 600, "never": None, "running": 0}
    kubectl.apply(*(external_job(name, ttl) for name, ttl in seconds.items()))
    for name in ("now", "later", "never"):
        finish(kubectl, name)
    finish(kubectl, "failed", failed=True)
