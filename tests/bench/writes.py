"""Numbers of writes by controllers, counted by verb, resource and subresource in the audit log of kube-apiserver."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
QUIET = 3.0  # seconds without a write after which the controllers are considered done


def audit_flags(directory: Path) -> tuple[str, str]:
    """Return the flags for a kube-apiserver that writes its audit log to `audit_log(directory)`."""
    policy = directory / "audit.yaml"
    policy.write_text(POLICY)
    return f"--audit-policy-file={policy}", f"--audit-log-path={audit_log(directory)}"


def audit_log(directory: Path) -> Path:
    return directory / "audit.log"


def writes_in(log: str, *, namespace: str) -> Counter[str]:
    """Return the number of writes by controllers, the real ones or ours, by "update deployments/status" and so on.

    Rejected writes are counted too. An incomplete last line is ignored.
    """
    counts: Counter[str] = Counter()
    for line in log[: log.rfind("\n") + 1].splitlines():
        event = json.loads(line)
        reference = event.get("objectRef") or {}
        if event["verb"] in WRITES and reference.get("namespace") == namespace and _is_by_controller(event):
            resource = "/".join(part for part in (reference["resource"], reference.get("subresource")) if part)
            counts[f"{event['verb']} {resource}"] += 1
    return counts


def _is_by_controller(event: dict[str, str]) -> bool:
    return event.get("userAgent", "").endswith("-controller")


def writes_until_quiet(log: Path, *, namespace: str, most: float = 120.0) -> Counter[str]:
    """Return the numbers of writes once none was added for QUIET seconds, or after `most` seconds."""
    deadline, last = time.monotonic() + most, Counter[str]()
    while True:
        counts = writes_in(log.read_text(), namespace=namespace)
        if (counts and counts == last) or time.monotonic() > deadline:
            return counts
        last = counts
        time.sleep(QUIET)
