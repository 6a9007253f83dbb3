"""Causes that two other tools name for the same stuck objects, by reading their rules: a table in docs/why-trial.md.

    python -m tests.actors.explanation.other_tools         # writes the table

Read were the analyzers of k8sgpt (05247a8, all of them enabled, without its language model) and the templates of
kubectl-status (11b7a20, asked about the same object, with events), of August 2026. Neither was run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from tests.actors.explanation.scenario import Scenario
from tests.actors.explanation.scenarios import SCENARIOS

PAGE = Path(__file__).parents[3] / "docs" / "why-trial.md"
BEGIN, END = "<!-- trial -->\n", "<!-- end of trial -->\n"

CAUSE, SYMPTOM, NOTHING = "cause", "symptom", "–"
MANAGER = frozenset(  # codes that need the state of the manager
    {
        "controller-crash-looping",
        "controller-denied",
        "controller-disabled",
        "controller-gave-up",
        "controller-hung",
        "controller-paused",
        "controller-waits-for-tables",
        "finalizer-controller",
        "key-held-back",
        "lease-held-elsewhere",
        "lease-not-acquired",
        "manager-draining",
        "missing-owner",
        "rate-limited",
        "stale-table",
        "storm-brake",
        "waits-for-server",
        "waits-in-queue",
    }
)
# By the code of the first cause, k8sgpt and kubectl-status.
BOTH = (CAUSE, CAUSE)
BY_CODE: dict[str, tuple[str, str]] = {
    # Containers: both read the states of containers, and the newest event.
    **dict.fromkeys(("image-pull", "image-invalid", "image-never-pull", "config-missing", "crash-loop"), BOTH),
    **dict.fromkeys(("out-of-memory", "container-cannot-start", "startup-probe", "readiness-probe"), BOTH),
    **dict.fromkeys(("volume-mount", "pod-evicted", "pod-failed"), BOTH),
    "device-preparation": (NOTHING, CAUSE),
    "readiness-gate": (SYMPTOM, CAUSE),
    "resize-pending": (NOTHING, CAUSE),
    "init-container": (SYMPTOM, SYMPTOM),
    "container-does-not-end": (NOTHING, SYMPTOM),
    "pod-rejected": (NOTHING, CAUSE),
    "kubelet-silent": (NOTHING, SYMPTOM),
    "kubelet-does-not-stop-pod": (NOTHING, SYMPTOM),
    # Scheduling: both show the scheduler's message.
    **dict.fromkeys(("insufficient-resources", "untolerated-taint", "node-affinity", "pod-affinity"), BOTH),
    **dict.fromkeys(("topology-spread", "nodes-unschedulable", "host-port", "scheduling-gates"), BOTH),
    **dict.fromkeys(("volume-not-reachable", "too-many-volumes", "device-unavailable", "claim-missing"), BOTH),
    "unschedulable": BOTH,
    "no-nodes": (SYMPTOM, SYMPTOM),
    "no-scheduler": (SYMPTOM, SYMPTOM),
    "preempting": (SYMPTOM, CAUSE),
    # Refusals: in the condition of a ReplicaSet, or in events of other owners.
    **dict.fromkeys(("quota-exceeded", "quota-needs-values", "limit-range", "pod-security", "policy-denied"), BOTH),
    **dict.fromkeys(("service-account-missing", "priority-class-missing", "runtime-class-missing"), BOTH),
    **dict.fromkeys(("webhook-unavailable", "webhook-denied", "invalid-template", "write-refused"), BOTH),
    **dict.fromkeys(("not-permitted", "namespace-terminating"), BOTH),
    # Workloads.
    "rollout-paused": (NOTHING, CAUSE),
    "old-revision-broken": (SYMPTOM, SYMPTOM),
    "rollout-limits": (NOTHING, SYMPTOM),
    "manual-update": (NOTHING, SYMPTOM),
    "no-matching-nodes": (NOTHING, SYMPTOM),
    "not-available-yet": (NOTHING, SYMPTOM),
    "suspended": BOTH,
    "job-deadline": (SYMPTOM, CAUSE),
    "managed-elsewhere": (NOTHING, NOTHING),
    "concurrency-forbids": (NOTHING, CAUSE),
    **dict.fromkeys(("schedule-missed", "schedule-invalid"), (NOTHING, SYMPTOM)),
    # Services, autoscalers, budgets.
    "service-no-pods": BOTH,
    "endpoints-missing": (NOTHING, SYMPTOM),
    "target-port-missing": (NOTHING, CAUSE),
    "load-balancer-missing": (NOTHING, SYMPTOM),
    "load-balancer-failed": BOTH,
    "backend-missing": BOTH,
    **dict.fromkeys(("ingress-class-missing", "ingress-unclassed"), (CAUSE, NOTHING)),
    **dict.fromkeys(("scale-target-missing", "metrics-unavailable", "requests-missing", "autoscaler-limit"), BOTH),
    **dict.fromkeys(("selector-overlap", "autoscaling-disabled", "scale-failed", "metrics-missing"), BOTH),
    "budget-not-computed": (NOTHING, CAUSE),
    "budget-allows-none": (SYMPTOM, SYMPTOM),
    "drain-blocked": (SYMPTOM, SYMPTOM),
    # Storage and devices.
    "storage-class-missing": BOTH,
    "provisioner-silent": (SYMPTOM, CAUSE),
    "claim-no-volume": (SYMPTOM, SYMPTOM),
    "claim-in-use": BOTH,
    "scheduler-bypassed": (SYMPTOM, SYMPTOM),
    "volume-attributes": (NOTHING, NOTHING),
    "volume-missing": (SYMPTOM, SYMPTOM),
    "volume-mismatch": (SYMPTOM, CAUSE),
    "volume-taken": (SYMPTOM, CAUSE),
    "claim-waits-for-pod": (SYMPTOM, CAUSE),
    "volume-lost": BOTH,
    "volume-released": BOTH,
    "volume-failed": (SYMPTOM, CAUSE),
    "volume-not-deleted": (SYMPTOM, SYMPTOM),
    "provisioning-failed": BOTH,
    "attacher-silent": (NOTHING, SYMPTOM),
    "volume-attach": (NOTHING, CAUSE),
    "volume-expansion": (NOTHING, CAUSE),
    "device-class-missing": BOTH,
    **dict.fromkeys(("device-template-missing", "device-claim-waits-for-pod"), (NOTHING, SYMPTOM)),
    "device-claim-missing": (NOTHING, SYMPTOM),
    # Deletion.
    "finalizer": (NOTHING, CAUSE),
    "namespace-discovery": (NOTHING, CAUSE),
    "in-use": (NOTHING, CAUSE),
    # Nodes and objects of the API server.
    **dict.fromkeys(("node-lost", "node-not-ready", "node-pressure", "node-network"), BOTH),
    "node-cordoned": (NOTHING, CAUSE),
    "csr-unapproved": (NOTHING, SYMPTOM),
    **dict.fromkeys(("csr-denied", "csr-failed"), (NOTHING, CAUSE)),
    "csr-unsigned": (NOTHING, SYMPTOM),
    "api-service-unavailable": (NOTHING, CAUSE),
    # Other kinds: kubectl-status shows their conditions, and whether their controllers have seen them.
    "condition-false": (NOTHING, CAUSE),
    "unexplained": (NOTHING, SYMPTOM),
    "api-server-unreachable": BOTH,
    # The manager: only its process has its queues, its tables and its errors.
    **dict.fromkeys(("controller-disabled", "controller-paused"), (SYMPTOM, SYMPTOM)),
    **dict.fromkeys(("controller-hung", "controller-crash-looping", "controller-gave-up"), (SYMPTOM, SYMPTOM)),
    "controller-waits-for-tables": (SYMPTOM, SYMPTOM),
    **dict.fromkeys(("lease-held-elsewhere", "rate-limited", "storm-brake"), (SYMPTOM, SYMPTOM)),
    **dict.fromkeys(("lease-not-acquired", "manager-draining", "waits-in-queue"), (SYMPTOM, SYMPTOM)),
    **dict.fromkeys(("controller-denied", "key-held-back", "waits-for-server"), (SYMPTOM, SYMPTOM)),
    "stale-table": (NOTHING, SYMPTOM),
    "finalizer-controller": (NOTHING, SYMPTOM),
    "missing-owner": (NOTHING, NOTHING),
}
BY_NAME: dict[str, tuple[str, str]] = {  # that differ from the others of their code
    "quota forbids the pods of a job": (NOTHING, CAUSE),
    "foreground deletion waits for a pod": (NOTHING, SYMPTOM),
    "namespace controller is disabled": (NOTHING, SYMPTOM),
    "all nodes are silent": (CAUSE, SYMPTOM),
    "node of the pod is lost": (CAUSE, SYMPTOM),
    "pod on a lost node is not replaced": (CAUSE, SYMPTOM),
    "namespace has a pod with a finalizer": (NOTHING, SYMPTOM),
    "definition has an object with a finalizer": (NOTHING, SYMPTOM),
    "claim is used by a pod with a finalizer": (NOTHING, SYMPTOM),
}


def named_by_others(scenario: Scenario) -> tuple[str, str]:
    """Return what k8sgpt and kubectl-status name. Raises KeyError for a scenario whose code is not in the table."""
    return BY_NAME.get(scenario.name) or BY_CODE[scenario.code.split("|")[0]]


def table() -> str:
    """Return the summary and the rows of all scenarios."""
    counts = [Counter(named_by_others(scenario)[tool] for scenario in SCENARIOS) for tool in (0, 1)]
    only_here = [scenario for scenario in SCENARIOS if CAUSE not in named_by_others(scenario)]
    manager = [scenario for scenario in SCENARIOS if scenario.code.split("|")[0] in MANAGER]
    summary = (
        f"Of these {len(SCENARIOS)} kinds, k8sgpt names the cause of {counts[0][CAUSE]} and a symptom of "
        f"{counts[0][SYMPTOM]}; kubectl-status names the cause of {counts[1][CAUSE]} and a symptom of "
        f"{counts[1][SYMPTOM]}. Neither names the cause of {len(only_here)} (**bold** below), and {len(manager)} need "
        "the state of the manager (†)."
    )
    heads = ("| stuck object | first cause | k8sgpt | kubectl-status |", "| --- | --- | --- | --- |")
    return "\n".join([*wrap(summary, 120), "", *heads, *_rows(), ""])


def _rows() -> Iterator[str]:
    for scenario in SCENARIOS:
        codes = scenario.code.split("|")
        others = named_by_others(scenario)
        text = " or ".join(f"`{code}`" for code in codes) + (" †" if codes[0] in MANAGER else "")
        name = scenario.name if CAUSE in others else f"**{scenario.name}**"
        yield f"| {name} | {text} | {others[0]} | {others[1]} |"


def main() -> int:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
