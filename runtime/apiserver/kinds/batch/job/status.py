"""Validation of updates of a Job's status.

Most rules apply only to fields that changed, as an older controller may have written invalid ones.

Source: kubernetes pkg/registry/batch/job/strategy.go (getStatusValidationOptions),
pkg/apis/batch/validation/validation.go (validateJobStatus, ValidateJobStatusUpdate; v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.completion_indexes import valid_intervals, validate_indexes
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, required, without_value
from kcm.runtime.apiserver.rules.cells import condition, is_true
from kcm.runtime.apiserver.rules.numbers import not_negative

_TERMINAL = ("Failed", "Complete", "FailureTarget")
_FIELD, _CONDITIONS = "status", "status.conditions"

Part = Mapping[str, Any]


def wrong_job_status(new: Object, old: Object) -> Iterator[FieldError]:
    spec, status, before = new["spec"], new.get("status") or {}, old.get("status") or {}
    yield from not_negative(status, _FIELD, ("active", "succeeded", "failed", "ready", "terminating"))
    yield from _uncounted(status.get("uncountedTerminatedPods") or {})
    yield from _finished(spec, status, before)
    yield from _indexes(spec, status, before)
    yield from _success(spec, status, before)
    yield from _reverted_fields(spec, status, before)


def _changed(status: Part, before: Part, *fields: str) -> bool:
    return any(status.get(field) != before.get(field) for field in fields)


def _condition_changed(status: Part, before: Part, *types: str) -> bool:
    return any(is_true(status, type_) != is_true(before, type_) for type_ in types)


def _uncounted(pods: Part) -> Iterator[FieldError]:
    seen: set[str] = set()
    for part in ("succeeded", "failed"):
        for i, uid in enumerate(pods.get(part) or ()):
            at = f"{_FIELD}.uncountedTerminatedPods.{part}[{i}]"
            if not uid:
                yield invalid(at, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(at, uid)
            seen.add(uid)


def _finished(spec: Part, status: Part, before: Part) -> Iterator[FieldError]:
    """Validate the conditions of a Job, and the fields that depend on them, in upstream's order.

    Each rule applies only if a field that it reads has changed, as upstream (getStatusValidationOptions).
    """
    yield from _contrary_conditions(status, before)
    yield from _completion_time(status, before)
    yield from _missing_conditions(status, before)
    if is_true(status, "Complete") or is_true(status, "Failed"):
        yield from _leftover_pods(spec, status, before)


def _contrary_conditions(status: Part, before: Part) -> Iterator[FieldError]:
    if not is_true(status, "Complete"):
        return
    for other in ("Failed", "FailureTarget"):
        if is_true(status, other) and _condition_changed(status, before, "Complete", other):
            yield without_value(_CONDITIONS, f"cannot set Complete=True and {other}=true conditions")


def _completion_time(status: Part, before: Part) -> Iterator[FieldError]:
    at, complete = f"{_FIELD}.completionTime", is_true(status, "Complete")
    start, end = status.get("startTime"), status.get("completionTime")
    if _condition_changed(status, before, "Complete") or _changed(status, before, "completionTime"):
        if end is not None and not complete:
            yield invalid(at, end, "cannot set completionTime when there is no Complete=True condition")
        if end is None and complete:
            yield required(at, "completionTime is required for Complete jobs")
    if start is not None and end is not None and end < start:
        if _changed(status, before, "startTime", "completionTime"):
            yield invalid(at, end, "must be equal to or after `startTime`")


def _missing_conditions(status: Part, before: Part) -> Iterator[FieldError]:
    if is_true(status, "Failed") and not is_true(status, "FailureTarget"):
        if _condition_changed(status, before, "Failed") or _changed(status, before, "failedIndexes"):
            detail = "cannot set Failed=True condition without the FailureTarget=true condition"
            yield without_value(_CONDITIONS, detail)
    if is_true(status, "Complete") and not is_true(status, "SuccessCriteriaMet"):
        if _condition_changed(status, before, "Complete", "SuccessCriteriaMet"):
            detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
            yield without_value(_CONDITIONS, detail)


def _leftover_pods(spec: Part, status: Part, before: Part) -> Iterator[FieldError]:
    """Validate that a finished Job has a start time and no active, terminating or uncounted pods."""
    finishes = not (is_true(before, "Complete") or is_true(before, "Failed"))
    if status.get("active") and (finishes or _changed(status, before, "active")):
        yield invalid(f"{_FIELD}.active", status["active"], "active>0 is invalid for finished job")
    never_ran = spec.get("suspend") is True and spec.get("completions") == 0
    if status.get("startTime") is None and not never_ran and (finishes or _changed(status, before, "startTime")):
        yield required(f"{_FIELD}.startTime", "startTime is required for finished job")
    pods = status.get("uncountedTerminatedPods") or {}
    if any(pods.values()) and (finishes or _changed(status, before, "uncountedTerminatedPods")):
        shown = {"Succeeded": pods.get("succeeded"), "Failed": pods.get("failed")}
        yield invalid(f"{_FIELD}.uncountedTerminatedPods", shown, "must be empty for finished job")
    if status.get("terminating") and (finishes or _changed(status, before, "terminating")):
        yield invalid(f"{_FIELD}.terminating", status["terminating"], "terminating>0 is invalid for finished job")


def _indexes(spec: Part, status: Part, before: Part) -> Iterator[FieldError]:
    done, failed, completions = (
        status.get("completedIndexes") or "",
        status.get("failedIndexes"),
        spec.get("completions"),
    )
    other_done, other_failed = done != (before.get("completedIndexes") or ""), failed != before.get("failedIndexes")
    if completions is not None:
        if other_done and (problem := _format_error(done, completions)):
            yield invalid(f"{_FIELD}.completedIndexes", done, f"error parsing completedIndexes: {problem}")
        if other_failed and failed is not None and spec.get("backoffLimitPerIndex") is not None:
            if problem := _format_error(failed, completions):
                yield invalid(f"{_FIELD}.failedIndexes", failed, f"error parsing failedIndexes: {problem}")
    if done and other_done and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid(f"{_FIELD}.completedIndexes", done, detail)
    if failed is not None and other_failed and spec.get("backoffLimitPerIndex") is None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid(f"{_FIELD}.failedIndexes", failed, detail)
    if completions is not None and failed is not None and (other_done or other_failed):
        if (both := _first_common(done, failed, completions)) is not None:
            yield invalid(
                f"{_FIELD}.failedIndexes", failed, f"failedIndexes and completedIndexes overlap at index: {both}"
            )
    if (status.get("ready") or 0) > (status.get("active") or 0) and _changed(status, before, "ready", "active"):
        yield invalid(f"{_FIELD}.ready", status["ready"], "cannot set more ready pods than active")


def _format_error(text: str, completions: int) -> str:
    """Return the syntax error in a text of completion indexes such as "0-3,7"; "" if it is valid."""
    try:
        validate_indexes(text, completions=completions)
    except ValueError as err:
        return str(err)
    return ""


def _first_common(completed: str, failed: str, completions: int) -> int | None:
    """Return the lowest index that is in both texts of completion indexes; None if there is none.

    Source: kubernetes pkg/apis/batch/validation/validation.go, validateFailedIndexesNotOverlapCompleted (v1.36).
    """
    ours = list(valid_intervals(completed, completions=completions))
    theirs = list(valid_intervals(failed, completions=completions))
    i = j = 0
    while i < len(ours) and j < len(theirs):
        (first, last), (begin, end) = ours[i], theirs[j]
        if first <= end and begin <= last:
            return max(first, begin)
        if first <= begin:
            i += 1
        else:
            j += 1
    return None


def _success(spec: Part, status: Part, before: Part) -> Iterator[FieldError]:
    met = is_true(status, "SuccessCriteriaMet")
    for other in ("Failed", "FailureTarget") if met else ():
        if is_true(status, other):
            yield without_value(_CONDITIONS, f"cannot set SuccessCriteriaMet=True and {other}=true conditions")
    if spec.get("successPolicy") is not None and not met and is_true(status, "Complete"):
        detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield without_value(_CONDITIONS, detail)
    if is_true(before, "SuccessCriteriaMet") and not met:
        yield without_value(_CONDITIONS, "cannot disable the SuccessCriteriaMet=True condition")
    if is_true(before, "Complete") and not is_true(before, "SuccessCriteriaMet") and met:
        detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield without_value(_CONDITIONS, detail)


def _reverted_fields(spec: Part, status: Part, before: Part) -> Iterator[FieldError]:
    for type_ in _TERMINAL:
        if is_true(before, type_) and not is_true(status, type_):
            yield without_value(_CONDITIONS, f"cannot disable the terminal {type_}=True condition")
    scaled = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for name in ("failed", "succeeded"):
        if (status.get(name) or 0) < (before.get(name) or 0) and not (name == "succeeded" and scaled):
            yield invalid(f"{_FIELD}.{name}", status.get(name) or 0, f"cannot decrease the {name} counter")
    start, end, was_start, was_end = (
        part.get(field) for part in (status, before) for field in ("startTime", "completionTime")
    )
    if end is not None and was_end is not None and end != was_end:
        yield invalid(f"{_FIELD}.completionTime", end, "field is immutable")
    suspended = condition(status, "Suspended")
    resuming = is_true(before, "Suspended") and suspended is not None and suspended.get("status") == "False"
    if was_start is not None and start != was_start and not spec.get("suspend") and not resuming:
        yield invalid(f"{_FIELD}.startTime", start, "field is immutable for unsuspended job once set")
