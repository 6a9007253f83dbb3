"""Conditions of finished Jobs: type, status, reason and message."""

from __future__ import annotations

Conditions = list[tuple[str, str, str, str]]

MESSAGES = {
    "BackoffLimitExceeded": "Job has reached the specified backoff limit",
    "CompletionsReached": "Reached expected number of succeeded pods",
    "DeadlineExceeded": "Job was active longer than specified deadline",
    "FailedIndexes": "Job has failed indexes",
    "MaxFailedIndexesExceeded": "Job has exceeded the specified maximal number of failed indexes",
    "SuccessPolicy": "Matched rules at index 0",
}
SUSPENDED: Conditions = [("Suspended", "True", "JobSuspended", "Job suspended")]
RESUMED: Conditions = [("Suspended", "False", "JobResumed", "Job resumed")]


def will_fail(reason: str, message: str = "") -> Conditions:
    """Conditions while some pods are still terminating."""
    return [("FailureTarget", "True", reason, message or MESSAGES[reason])]


def failed(reason: str, message: str = "") -> Conditions:
    return [*will_fail(reason, message), ("Failed", "True", reason, message or MESSAGES[reason])]


def will_complete(reason: str) -> Conditions:
    """Conditions while some pods are still terminating."""
    return [("SuccessCriteriaMet", "True", reason, MESSAGES[reason])]


def complete(reason: str) -> Conditions:
    return [*will_complete(reason), ("Complete", "True", reason, MESSAGES[reason])]
