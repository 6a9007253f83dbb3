"""Validation of the spec of Jobs, and of the Job template in CronJobs.

Source: kubernetes pkg/apis/batch/validation/validation.go, validateJobSpec (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.completion_indexes import validate_indexes
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    without_value,
)
from kcm.runtime.apiserver.kinds.pod_spec.validation import validate_pod_template
from kcm.runtime.apiserver.rules.domain_paths import domain_prefixed_path
from kcm.runtime.apiserver.rules.names import label_key
from kcm.runtime.apiserver.rules.numbers import not_negative

INDEXED, NON_INDEXED = "Indexed", "NonIndexed"
_MOST_AT_ONCE = 100_000
_LONGEST_MANAGER, _LONGEST_INDEXES = 63, 64 * 1024
_MANY, _MOST_AT_ONCE_OF_MANY, _MOST_FAILED_OF_MANY = 100_000, 10_000, 10_000
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")

Part = Mapping[str, Any]


def validate_job_spec(spec: Object, field: str) -> list[FieldError]:
    """Validate the spec of a Job, or of a Job template, in which the defaults of Jobs may be missing."""
    numbers = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    errors = not_negative(spec, field, (*numbers, "backoffLimitPerIndex", "maxFailedIndexes"))
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        errors.append(required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        errors += domain_prefixed_path(manager, f"{field}.managedBy")
        if len(manager) > _LONGEST_MANAGER:
            errors.append(too_long(f"{field}.managedBy", _LONGEST_MANAGER))
    errors += _wrong_mode(spec, field)
    if (policy := spec.get("podFailurePolicy")) is not None:
        errors += _wrong_failure_policy(policy, spec, f"{field}.podFailurePolicy")
    if (policy := spec.get("successPolicy")) is not None:
        at = f"{field}.successPolicy"
        if spec.get("completionMode") != INDEXED:
            rules = [
                {"SucceededIndexes": rule.get("succeededIndexes"), "SucceededCount": rule.get("succeededCount")}
                for rule in policy.get("rules") or ()
            ]
            errors.append(invalid(at, {"Rules": rules}, "requires indexed completion mode"))
        else:
            errors += _wrong_success_policy(policy, spec.get("completions") or 0, at)
    errors += _wrong_replacement(spec, f"{field}.podReplacementPolicy")
    errors += validate_pod_template(spec["template"], f"{field}.template")
    return [*errors, *_wrong_restarts(spec, f"{field}.template.spec.restartPolicy")]


def _wrong_mode(spec: Object, field: str) -> Iterator[FieldError]:
    mode, completions = spec.get("completionMode"), spec.get("completions")
    parallelism, failed = spec.get("parallelism"), spec.get("maxFailedIndexes")
    if mode is not None and mode not in (INDEXED, NON_INDEXED):
        yield not_supported(f"{field}.completionMode", mode, (NON_INDEXED, INDEXED))
    if mode == INDEXED:
        if completions is None:
            yield required(f"{field}.completions", f"when completion mode is {INDEXED}")
        if parallelism is not None and parallelism > _MOST_AT_ONCE:
            detail = f"must be less than or equal to {_MOST_AT_ONCE} when completion mode is {INDEXED}"
            yield invalid(f"{field}.parallelism", parallelism, detail)
        if completions is not None and failed is not None and failed > completions:
            yield invalid(f"{field}.maxFailedIndexes", failed, "must be less than or equal to completions")
        if failed is not None and failed > _MOST_AT_ONCE:
            yield invalid(f"{field}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_AT_ONCE}")
        if completions is not None and completions > _MANY and "backoffLimitPerIndex" in spec:
            yield from _wrong_for_many(parallelism, failed, field)
    elif mode in (None, NON_INDEXED):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if name in spec:
                yield invalid(f"{field}.{name}", spec[name], "requires indexed completion mode")


def _wrong_for_many(parallelism: int | None, failed: int | None, field: str) -> Iterator[FieldError]:
    above = f"when completions are above {_MANY} and used with backoff limit per index"
    if failed is None:
        detail = f"must be specified when completions is above {_MANY}"
        yield required(f"{field}.maxFailedIndexes", detail)
    if parallelism is not None and parallelism > _MOST_AT_ONCE_OF_MANY:
        detail = f"must be less than or equal to {_MOST_AT_ONCE_OF_MANY} {above}"
        yield invalid(f"{field}.parallelism", parallelism, detail)
    if failed is not None and failed > _MOST_FAILED_OF_MANY:
        detail = f"must be less than or equal to {_MOST_FAILED_OF_MANY} {above}"
        yield invalid(f"{field}.maxFailedIndexes", failed, detail)


def _wrong_restarts(spec: Object, field: str) -> Iterator[FieldError]:
    policy = spec["template"]["spec"].get("restartPolicy") or ""
    if policy in ("Always", ""):
        yield required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(field, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid(field, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _wrong_replacement(spec: Object, field: str) -> Iterator[FieldError]:
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in allowed:
        yield not_supported(field, policy, allowed)


def _wrong_failure_policy(policy: Part, spec: Object, field: str) -> Iterator[FieldError]:
    pod = spec["template"]["spec"]
    names = {container.get("name") for part in ("containers", "initContainers") for container in pod.get(part) or ()}
    for i, rule in enumerate(policy.get("rules") or ()):
        at, action = f"{field}.rules[{i}]", rule.get("action") or ""
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if not action:
            yield required(f"{at}.action", f"valid values: {_listed(_ACTIONS)}")
        elif action == "FailIndex":
            if "backoffLimitPerIndex" not in spec:
                yield invalid(f"{at}.action", action, "requires the backoffLimitPerIndex to be set")
        elif action not in _ACTIONS:
            yield not_supported(f"{at}.action", action, _ACTIONS)
        if codes is not None:
            yield from _wrong_codes(codes, f"{at}.onExitCodes", names)
        for j, condition in enumerate(conditions):
            yield from _wrong_condition(condition, f"{at}.onPodConditions[{j}]")
        if codes is not None and conditions:
            yield without_value(at, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not conditions:
            yield without_value(at, "specifying one of OnExitCodes and OnPodConditions is required")


def _wrong_codes(codes: Part, field: str, names: set[str | None]) -> Iterator[FieldError]:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    if not operator:
        yield required(f"{field}.operator", f"valid values: {_listed(('In', 'NotIn'))}")
    elif operator not in ("In", "NotIn"):
        yield not_supported(f"{field}.operator", operator, ("In", "NotIn"))
    container = codes.get("containerName")
    if container is not None and container not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{field}.containerName", container, detail)
    if not values:
        yield invalid(f"{field}.values", values, "at least one value is required")
    seen: set[int] = set()
    for i, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{field}.values[{i}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(f"{field}.values[{i}]", value)
        seen.add(value)
    if values != sorted(values):
        yield invalid(f"{field}.values", values, "must be ordered")


def _wrong_condition(condition: Part, field: str) -> Iterator[FieldError]:
    type_, status = condition.get("type") or "", condition.get("status") or ""
    for text in label_key(type_):
        yield invalid(f"{field}.type", type_, text)
    if not status:
        yield required(f"{field}.status", f"valid values: {_listed(_STATUSES)}")
    elif status not in _STATUSES:
        yield not_supported(f"{field}.status", status, _STATUSES)


def _listed(words: tuple[str, ...]) -> str:
    """Format a list of words as Go's %q does: ["a" "b"]."""
    return "[" + " ".join(f'"{word}"' for word in words) + "]"


def _wrong_success_policy(policy: Part, completions: int, field: str) -> Iterator[FieldError]:
    rules = policy.get("rules") or []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        yield required(f"{field}.rules", detail)
    for i, rule in enumerate(rules):
        at, indexes, count = f"{field}.rules[{i}]", rule.get("succeededIndexes"), rule.get("succeededCount")
        total = 0
        if count is None and indexes is None:
            yield required(at, "at least one of succeededCount or succeededIndexes must be specified")
        if indexes is not None:
            if len(indexes) > _LONGEST_INDEXES:
                yield too_long(f"{at}.succeededIndexes", _LONGEST_INDEXES)
            try:
                total = validate_indexes(indexes, completions=completions)
            except ValueError as err:
                yield invalid(f"{at}.succeededIndexes", indexes, f"error parsing succeededIndexes: {err}")
        if count is not None:
            yield from not_negative({"succeededCount": count}, at, ("succeededCount",))
            if count > completions:
                detail = f"must be less than or equal to {completions} (the number of specified completions)"
                yield invalid(f"{at}.succeededCount", count, detail)
            if indexes is not None and count > total:
                field_of = "(the number of indexes in the specified succeededIndexes field)"
                yield invalid(f"{at}.succeededCount", count, f"must be less than or equal to {total} {field_of}")
