"""Causes of HorizontalPodAutoscalers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.actors.explanation.case import Case, condition_line, is_lasting
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.kinds import API_SERVICES, resource_of_kind
from kcm.protocols.objects import Object

# Reasons of the condition ScalingActive=False that name a metric.
METRICS = ("FailedGet", "InvalidMetricSourceType")
API_OF = {  # APIServices of the metrics APIs, by the words of the controller's message
    "resource metrics API": "v1beta1.metrics.k8s.io",
    "custom metrics API": "v1beta1.custom.metrics.k8s.io",
    "external metrics API": "v1beta1.external.metrics.k8s.io",
}
SETTLING = 90.0  # seconds in which pods get their first metrics
_NO_REQUEST = re.compile(r"missing request for (?P<resource>\S+)(?: in container (?P<container>\S+))?")
_UNAVAILABLE = re.compile(
    r"could not find the requested resource|unable to handle the request|no custom metrics API|"
    r"Service Unavailable|service unavailable|the server is currently unable"
)


def pending(case: Case) -> str:
    if not case.status.get("conditions"):
        return "it has not been evaluated"
    for type in ("AbleToScale", "ScalingActive"):
        condition = case.condition_is(type, "False")
        if condition is not None:
            return condition_line(condition)
    limited = _limited(case)
    return "" if limited is None else condition_line(limited)


def causes(case: Case) -> Iterator[Cause]:
    unable = case.condition_is("AbleToScale", "False")
    if unable is not None:
        yield from _unable(case, unable)
        return
    inactive = case.condition_is("ScalingActive", "False")
    if inactive is not None:
        yield from _inactive(case, inactive)
        return
    limited = _limited(case)
    if limited is not None:
        yield case.cause(
            "autoscaler-limit",
            f"more replicas are needed than maxReplicas ({case.spec.get('maxReplicas')}) permits",
            condition_line(limited),
            *_metrics(case),
            since=limited.get("lastTransitionTime"),
        )


def _limited(case: Case) -> Mapping[str, Any] | None:
    limited = case.condition_is("ScalingLimited", "True")
    return limited if limited is not None and limited.get("reason") == "TooManyReplicas" else None


def _target(case: Case) -> tuple[str, Object | None, bool]:
    """Return (name of the target, the target, whether it surely does not exist)."""
    reference = case.spec.get("scaleTargetRef") or {}
    kind, name = reference.get("kind") or "", reference.get("name") or ""
    api_version = reference.get("apiVersion") or ""
    resource = resource_of_kind(api_version, kind) or case.evidence.find(api_version.rpartition("/")[0], kind)
    about = f"{kind.lower()} {case.namespace}/{name}"
    if resource is None:
        return about, None, False
    key = f"{case.namespace}/{name}"
    return about, case.evidence.get(resource, key), case.evidence.is_missing(resource, key)


def _unable(case: Case, condition: Mapping[str, Any]) -> Iterator[Cause]:
    about, _, is_missing = _target(case)
    since = condition.get("lastTransitionTime")
    if is_missing:
        yield case.cause(
            "scale-target-missing", f"its target {about} does not exist", condition_line(condition), since=since
        )
        return
    yield case.cause(
        "scale-failed",
        f"its target {about} cannot be scaled: {condition.get('message')}",
        condition_line(condition),
        since=since,
    )


def _inactive(case: Case, condition: Mapping[str, Any]) -> Iterator[Cause]:
    reason, message = str(condition.get("reason")), str(condition.get("message"))
    since, line = condition.get("lastTransitionTime"), condition_line(condition)
    about, target, _ = _target(case)
    if reason == "ScalingDisabled":
        yield case.cause("autoscaling-disabled", f"autoscaling is off while {about} has 0 replicas", line, since=since)
    elif reason in ("AmbiguousSelector", "InvalidSelector"):
        code = "selector-overlap" if reason == "AmbiguousSelector" else "scale-failed"
        yield case.cause(code, f"it does not scale {about}: {message}", line, since=since)
    elif (found := _NO_REQUEST.search(message)) is not None:
        whose = f"containers {found['container']} in the pods" if found["container"] else "pods"
        yield case.cause(
            "requests-missing",
            f"the {whose} of {about} have no request for {found['resource']}, so their utilization cannot be computed",
            line,
            since=since,
        )
    elif _UNAVAILABLE.search(message):
        yield from _no_metrics(case, message, line, since)
    else:
        causes_of_pods = list(_pods(case, target))
        yield from causes_of_pods
        is_recent = (case.evidence.age(since) or 0.0) < SETTLING
        if not is_lasting(causes_of_pods) and (causes_of_pods or is_recent):
            return  # new pods have no metrics yet
        yield case.cause("metrics-missing", f"there are no metrics of {about}: {message}", line, since=since)


def _metrics(case: Case) -> Iterator[str]:
    """Yield the current values of the metrics, with their targets."""
    targets = [_value(metric, "target") for metric in case.spec.get("metrics") or ()]
    for number, metric in enumerate(case.status.get("currentMetrics") or ()):
        name, value = _value(metric, "current")
        if name:
            target = next((wanted for known, wanted in targets[number : number + 1] if known == name), "unknown")
            yield f"metric {name} is {value}, its target is {target}"


def _value(metric: Mapping[str, Any], part: str) -> tuple[str, str]:
    """Return the name of a metric, and its current value or its target. part: "current" or "target"."""
    source = next((found for found in metric.values() if isinstance(found, dict)), {})
    name = source.get("name") or (source.get("metric") or {}).get("name") or ""
    value = source.get(part) or {}
    if value.get("averageUtilization") is not None:
        return name, f"{value['averageUtilization']} %"
    return name, str(value.get("averageValue") or value.get("value") or "unknown")


def _no_metrics(case: Case, message: str, line: str, since: Any) -> Iterator[Cause]:
    name = next((api for words, api in API_OF.items() if words in message), "")
    found = case.evidence.get(API_SERVICES, name) if name else None
    lines = [line]
    if found is not None:
        yield from case.follow(API_SERVICES, found)
    elif name and case.evidence.is_missing(API_SERVICES, name):
        lines.append(f"apiservice {name} does not exist: no metrics server is installed")
    yield case.cause("metrics-unavailable", f"the metrics API does not respond: {message}", *lines, since=since)


def _pods(case: Case, target: Object | None) -> Iterator[Cause]:
    reference = case.spec.get("scaleTargetRef") or {}
    resource = resource_of_kind(reference.get("apiVersion") or "", reference.get("kind") or "")
    if resource is not None and target is not None:
        yield from case.follow(resource, target)
