"""ReplicationControllers, ReplicaSets, Deployments; of the other workloads what their controllers rest on.

Source: kubernetes pkg/apis/apps/validation/validation.go, pkg/apis/core/validation/validation.go,
pkg/apis/batch/validation/validation.go (v1.36).
"""

from __future__ import annotations

import re
from typing import Any

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from runtime.apiserver.kinds.validation.objectmeta import IMMUTABLE
from runtime.apiserver.kinds.validation.pods import validate_pod_template
from runtime.apiserver.kinds.validation.selectors import NOT_NEGATIVE, not_negative, selects, validate_selector

_UNMATCHED = "`selector` does not match template `labels`"
_TEMPLATE, _SELECTOR = "spec.template", "spec.selector"
_percent = re.compile("[0-9]+%")


def validate_replication_controller(controller: Object) -> list[FieldError]:
    spec = controller["spec"]
    errors = not_negative(spec, "spec", ("minReadySeconds",))
    selector = spec.get("selector") or {}
    if not selector:
        errors.append(required(_SELECTOR))
    errors += not_negative(spec, "spec", ("replicas",))
    if "template" not in spec:
        return [*errors, required(_TEMPLATE)]
    labels = spec["template"]["metadata"].get("labels") or {}
    if not selector.items() <= labels.items():
        errors.append(invalid(f"{_TEMPLATE}.metadata.labels", labels, _UNMATCHED))
    return errors + _validate_template(spec["template"], "ReplicationController")


def validate_replicaset(replicaset: Object) -> list[FieldError]:
    spec = replicaset["spec"]
    errors = not_negative(spec, "spec", ("replicas", "minReadySeconds"))
    return errors + _validate_selected_template(spec, owner="ReplicaSet", empty="deployment")


def validate_deployment(deployment: Object) -> list[FieldError]:
    spec = deployment["spec"]
    errors = not_negative(spec, "spec", ("replicas",))
    errors += _validate_selected_template(spec, owner="ReplicaSet", empty="deployment")
    errors += _validate_deployment_strategy(spec["strategy"])
    errors += not_negative(spec, "spec", ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"))
    deadline = spec["progressDeadlineSeconds"]
    if deadline <= (spec.get("minReadySeconds") or 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors


def validate_daemonset(daemonset: Object) -> list[FieldError]:
    spec = daemonset["spec"]
    errors = _validate_selected_template(spec, owner="DaemonSet", empty="daemonset")
    return errors + not_negative(spec, "spec", ("minReadySeconds", "revisionHistoryLimit"))


def validate_statefulset(statefulset: Object) -> list[FieldError]:
    spec = statefulset["spec"]
    errors = not_negative(spec, "spec", ("replicas", "minReadySeconds"))
    return errors + _validate_selected_template(spec, owner="StatefulSet", empty="statefulset")


def validate_job(job: Object) -> list[FieldError]:
    spec = job["spec"]
    numbers = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    errors = not_negative(spec, "spec", numbers)
    return errors + _validate_job_template(spec["template"], _TEMPLATE)


def validate_cron_job(cron_job: Object) -> list[FieldError]:
    """The schedule's grammar is left to the controller."""
    spec = cron_job["spec"]
    errors = [] if spec.get("schedule") else [required("spec.schedule")]
    errors += not_negative(spec, "spec", ("startingDeadlineSeconds",))
    policies = ("Allow", "Forbid", "Replace")
    if spec["concurrencyPolicy"] not in policies:
        errors.append(not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], policies))
    errors += not_negative(spec, "spec", ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"))
    return errors + _validate_job_template(spec["jobTemplate"]["spec"]["template"], "spec.jobTemplate.spec.template")


def _validate_job_template(template: Object, field: str) -> list[FieldError]:
    errors = validate_pod_template(template, field)
    policy, field = template["spec"]["restartPolicy"], f"{field}.spec.restartPolicy"
    if policy == "Always":
        errors.append(required(field, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(field, policy, ("OnFailure", "Never")))
    return errors


def validate_selector_update(new: Object, old: Object) -> list[FieldError]:
    """What a set selects stays what it selected."""
    return _immutable(new, old, "selector")


def validate_job_update(new: Object, old: Object) -> list[FieldError]:
    return _immutable(new, old, "selector") + _immutable(new, old, "completionMode")


def validate_set_status(new: Object, _old: Object) -> list[FieldError]:
    """The status of a ReplicaSet or ReplicationController."""
    status = new.get("status") or {}
    counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration")
    errors = not_negative(status, "status", (*counts, "terminatingReplicas"))
    return errors + _within_replicas(status, ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"))


def validate_deployment_status(new: Object, old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    counts = (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    )
    errors = not_negative(status, "status", counts)
    errors += _within_replicas(status, ("updatedReplicas", "readyReplicas", "availableReplicas"))
    collisions = status.get("collisionCount", 0)
    if collisions < (old.get("status") or {}).get("collisionCount", 0):
        errors.append(invalid("status.collisionCount", collisions, "cannot be decremented"))
    return errors


def _within_replicas(status: Object, names: tuple[str, ...]) -> list[FieldError]:
    replicas, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    errors = [
        invalid(f"status.{name}", status[name], "cannot be greater than status.replicas")
        for name in names
        if status.get(name, 0) > replicas
    ]
    if status.get("availableReplicas", 0) > ready:
        available = status["availableReplicas"]
        errors.append(invalid("status.availableReplicas", available, "cannot be greater than readyReplicas"))
    return errors


def _validate_selected_template(spec: Object, *, owner: str, empty: str) -> list[FieldError]:
    errors: list[FieldError] = []
    selector, template = spec.get("selector"), spec["template"]
    if selector is None:
        errors.append(required(_SELECTOR))
    else:
        errors += validate_selector(selector, _SELECTOR)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.append(invalid(_SELECTOR, selector, f"empty selector is invalid for {empty}"))
    labels = template["metadata"].get("labels")
    selected = selector is not None and selects(selector, labels or {})
    if selected is None:
        return [*errors, invalid(_SELECTOR, selector, "invalid label selector")]
    if not selected:
        errors.append(invalid(f"{_TEMPLATE}.metadata.labels", labels, _UNMATCHED))
    return errors + _validate_template(template, owner)


def _validate_template(template: Object, owner: str) -> list[FieldError]:
    errors = validate_pod_template(template, _TEMPLATE)
    spec = template["spec"]
    if spec["restartPolicy"] != "Always":
        errors.append(not_supported(f"{_TEMPLATE}.spec.restartPolicy", spec["restartPolicy"], ("Always",)))
    if "activeDeadlineSeconds" in spec:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        errors.append(forbidden(f"{_TEMPLATE}.spec.activeDeadlineSeconds", detail))
    return errors


def _validate_deployment_strategy(strategy: Object) -> list[FieldError]:
    field = "spec.strategy"
    if strategy["type"] == "Recreate":
        detail = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(f"{field}.rollingUpdate", detail)] if "rollingUpdate" in strategy else []
    if strategy["type"] != "RollingUpdate":
        shown = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}  # upstream's inner form
        return [not_supported(field, shown, ("Recreate", "RollingUpdate"))]
    rolling = strategy["rollingUpdate"]
    field += ".rollingUpdate"
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    errors = _int_or_percent(unavailable, f"{field}.maxUnavailable") + _int_or_percent(surge, f"{field}.maxSurge")
    if not errors and _number(unavailable) == 0 and _number(surge) == 0:
        errors.append(invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    if not errors and isinstance(unavailable, str) and _number(unavailable) > 100:
        errors.append(invalid(f"{field}.maxUnavailable", unavailable, "must not be greater than 100%"))
    return errors


def _int_or_percent(value: int | str, field: str) -> list[FieldError]:
    if isinstance(value, int):
        return [invalid(field, value, NOT_NEGATIVE)] if value < 0 else []
    if _percent.fullmatch(value):
        return []
    rule = "a valid percent string must be a numeric string followed by an ending '%'"
    return [invalid(field, value, f"{rule} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')")]


def _number(value: int | str) -> int:
    return value if isinstance(value, int) else int(value.rstrip("%"))


def _immutable(new: Object, old: Object, name: str) -> list[FieldError]:
    now: Any = new["spec"].get(name)
    return [invalid(f"spec.{name}", now, IMMUTABLE)] if now != old["spec"].get(name) else []
