"""Steps that set the pods of a node that is not ready to not ready.

Source: kubernetes v1.36 pkg/controller/util/node/controller_utils.go, MarkPodsNotReady.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.reconciliation import Step, batches, record, together, update
from kcm.protocols.conditions import is_true
from kcm.protocols.messages.outcomes import CommandError, Done, NotFound
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS
from kcm.protocols.times import format_time

BATCH = 50  # updates sent together


def not_ready_pod(pod: Object, now: float) -> Object:
    """The pod with condition Ready False; reason and message stay. now: Unix seconds."""
    status = pod["status"]
    change = {"status": "False", "lastTransitionTime": format_time(now)}
    conditions = [{**each, **change} if each.get("type") == "Ready" else each for each in status["conditions"]]
    return {**pod, "status": {**status, "conditions": conditions}}


def mark_not_ready(pods: Iterable[Object], now: float) -> Step[None]:
    """Set condition Ready of the ready ones to False, each with an event. Raises CommandError if an update failed."""
    failed: CommandError | None = None
    for batch in batches([pod for pod in pods if is_true((pod.get("status") or {}).get("conditions"), "Ready")], BATCH):
        commands = [update(PODS, not_ready_pod(pod, now), subresource="status") for pod in batch]
        outcomes = yield from together(commands)
        for pod, command, outcome in zip(batch, commands, outcomes, strict=True):
            if isinstance(outcome, NotFound):
                continue
            yield record(PODS, pod, "Warning", "NodeNotReady", "Node is not ready")
            if not isinstance(outcome, Done):
                failed = CommandError(command, outcome)
    if failed is not None:
        raise failed
