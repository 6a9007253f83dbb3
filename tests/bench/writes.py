"""How many writes controllers need: counted by a real API server's audit log, by verb, resource and subresource."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
QUIET = 3.0  # seconds without a write after which they are done


def audit_flags(directory: Path) -> tuple[str, str]:
    """Flags of a kube-apiserver that keeps an audit log in this directory, see audit_log."""
    policy = directory / "audit.yaml"
    policy.write_text(POLICY)
    return f"--audit-policy-file={policy}", f"--audit-log-path={audit_log(directory)}"


def audit_log(directory: Path) -> Path:
    return directory / "audit.log"


def writes_in(log: str, *, namespace: str) -> Counter[str]:
    """By controllers, the real ones or ours, whatever the server answered: "update deployments/status" → how often.

    A line that is still being written is left out.
    """
    found: Counter[str] = Counter()
    for line in log[: log.rfind("\n") + 1].splitlines():
        event = json.loads(line)
        about = event.get("objectRef") or {}
        if event["verb"] in WRITES and about.get("namespace") == namespace and _is_a_controllers(event):
            resource = "/".join(part for part in (about["resource"], about.get("subresource")) if part)
            found[f"{event['verb']} {resource}"] += 1
    return found


def _is_a_controllers(event: dict[str, str]) -> bool:
    return event.get("userAgent", "").endswith("-controller")


def writes_until_quiet(log: Path, *, namespace: str, most: float = 120.0) -> Counter[str]:
    """Once nobody has written for a while."""
    deadline, last = time.monotonic() + most, Counter[str]()
    while True:
        found = writes_in(log.read_text(), namespace=namespace)
        if (found and found == last) or time.monotonic() > deadline:
            return found
        last = found
        time.sleep(QUIET)
