"""Test cases in a short notation: metrics, values, a letter for each pod, and the expected result of one evaluation.

    Case("ready", cpu(30), (300, 500, 700), size=3, end=5, percent=50)

is a target of three ready pods that request one CPU each, with a target utilization of 30 %. It is scaled to five.

Source of the cases: kubernetes v1.36 pkg/controller/podautoscaler/horizontal_test.go.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson
from msgspec import Struct

from kcm.actors.controllers.workloads.horizontal_pod_autoscaler import metrics as of
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.fields import metric_spec
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.replicas import Tolerances
from kcm.actors.controllers.workloads.horizontal_pod_autoscaler.sources import ScaledTarget
from kcm.actors.simulation.driver import NOW, drive_steps
from kcm.protocols.messages.commands import Fetch, Update
from kcm.protocols.messages.outcomes import Done, Outcome, ServerFailure
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import HORIZONTAL_POD_AUTOSCALERS
from kcm.protocols.selectors import parse_label_selector
from kcm.protocols.times import format_time
from tests.actors.controllers.workloads.horizontal_pod_autoscaler.scene import KEY, NEVER_CHANGED, Scene, autoscaler

WENT_WRONG = ServerFailure("something went wrong", b'{"kind": "Status"}')
DESCRIBED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
READ = "the HPA controller was able to get the target's current scale"
UNREAD = "the HPA controller was unable to get the target's current scale: {why}"
UNKNOWN = "the HPA was unable to compute the replica count: {why}"
REASONS = {  # of conditions: the type, the status, the message
    "SucceededGetScale": ("AbleToScale", "True", READ),
    "FailedGetScale": ("AbleToScale", "False", UNREAD),
    "SucceededRescale": ("AbleToScale", "True", "the HPA controller was able to update the target scale to {end}"),
    "FailedUpdateScale": ("AbleToScale", "False", "the HPA controller was unable to update the target scale: {why}"),
    "ReadyForNewScale": ("AbleToScale", "True", "recommended size matches current size"),
    "ScaleDownStabilized": (
        "AbleToScale",
        "True",
        "recent recommendations were higher than current one, applying the highest recent recommendation",
    ),
    "ValidMetricFound": (
        "ScalingActive",
        "True",
        "the HPA was able to successfully calculate a replica count from {metric}",
    ),
    "ScalingDisabled": (
        "ScalingActive",
        "False",
        "scaling is disabled since the replica count of the target is zero",
    ),
    **{f"FailedGet{type_}Metric": ("ScalingActive", "False", UNKNOWN) for type_ in ("Resource", "Pods", "Object")},
    "FailedGetExternalMetric": ("ScalingActive", "False", UNKNOWN),
    "InvalidMetricSourceType": ("ScalingActive", "False", UNKNOWN),
    "InvalidSelector": ("ScalingActive", "False", "{why}"),
    "AmbiguousSelector": ("ScalingActive", "False", "{why}"),
    "DesiredWithinRange": ("ScalingLimited", "False", "the desired count is within the acceptable range"),
    "TooManyReplicas": (
        "ScalingLimited",
        "True",
        "the desired replica count is more than the maximum replica count",
    ),
    "TooFewReplicas": ("ScalingLimited", "True", "the desired replica count is less than the minimum replica count"),
    "ScaleUpLimit": (
        "ScalingLimited",
        "True",
        "the desired replica count is increasing faster than the maximum scale rate",
    ),
    "ScaledToZero": ("ScaledToZero", "True", "the HPA controller scaled the workload to zero"),
    "NotScaledToZero": ("ScaledToZero", "False", "the HPA controller did not scale the workload to zero"),
}


class Metric(NamedTuple):
    """An entry of spec.metrics. name: its name in messages."""

    spec: Object
    name: str


def cpu(percent: int, container: str = "") -> Metric:
    target = {"type": "Utilization", "averageUtilization": percent}
    if not container:
        spec = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
        return Metric(spec, "cpu resource utilization (percentage of request)")
    source = {"name": "cpu", "container": container, "target": target}
    spec = {"type": "ContainerResource", "containerResource": source}
    return Metric(spec, "cpu container resource utilization (percentage of request)")


def used(resource: str, value: str) -> Metric:
    """Build a Resource metric with an average value as target."""
    source = {"name": resource, "target": {"type": "AverageValue", "averageValue": value}}
    return Metric({"type": "Resource", "resource": source}, f"{resource} resource")


def each(value: str) -> Metric:
    """Build a Pods metric with an average value as target."""
    source = {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": value}}
    return Metric({"type": "Pods", "pods": source}, "pods metric qps")


def about_other(value: str) -> Metric:
    """Build an Object metric with a value as target."""
    source = {"describedObject": DESCRIBED, "metric": {"name": "qps"}, "target": {"type": "Value", "value": value}}
    return Metric({"type": "Object", "object": source}, "Deployment metric qps")


def about_other_each(value: str) -> Metric:
    """Build an Object metric with a target per pod. Upstream's messages call it external."""
    target = {"type": "AverageValue", "averageValue": value}
    source = {"describedObject": DESCRIBED, "metric": {"name": "qps"}, "target": target}
    return Metric({"type": "Object", "object": source}, "external metric qps(nil)")


def outside(value: str) -> Metric:
    return _external({"type": "Value", "value": value})


def outside_each(value: str) -> Metric:
    return _external({"type": "AverageValue", "averageValue": value})


def _external(target: Object) -> Metric:
    source = {"metric": {"name": "qps", "selector": {}}, "target": target}
    all_of_it = "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"
    return Metric({"type": "External", "external": source}, f"external metric qps({all_of_it})")


ODD = Metric({"type": "CheddarCheese"}, "")


class Case(Struct, frozen=True):
    """Autoscaler and its target, and the expected result of an evaluation.

    values: thousandths, by pod or by the containers a and b of each pod; by series; or of the object.
    size, end: replicas of the target before and after.
    pods: a letter for each pod. r: ready; u: not ready since its start; h: ready, just started; H: not ready, just
        started; f: failed; d: being deleted; p: pending. "": all ready; "-": no pods.
    requests: requests by pod in thousandths of a CPU; the last one is for all further pods.
    reported: status.replicas of the target, if they differ from size.
    known: evaluated before, without a recent recommendation; otherwise size was recommended.
    broken: the APIs that fail.
    zeroes, tolerates: feature gates.
    was: previous reasons of the conditions.
    but: conditions that differ from the default ones.
    only: all conditions.
    percent: reported utilization, if it is checked.
    warned: reasons of warnings.
    fault: error label of the evaluation in the metrics.
    computed: (action, error, type) of each metric.
    why: error in messages.
    """

    about: str
    metrics: Metric | tuple[Metric, ...]
    values: tuple[int | tuple[int, ...], ...] = ()
    size: int = 3
    end: int = 3
    pods: str = ""
    requests: tuple[int, ...] = (1000,)
    bounds: tuple[int, int] = (2, 6)
    reported: int | None = None
    kind: str = "Deployment"
    behavior: Object | None = None
    known: bool = False
    broken: tuple[str, ...] = ()
    zeroes: bool = False
    tolerates: bool = True
    was: tuple[str, ...] = ()
    but: str = ""
    only: str | None = None
    percent: int | None = None
    warned: str = ""
    fault: str = "none"
    computed: tuple[tuple[str, str, str], ...] | None = None
    why: str = ""

    def __str__(self) -> str:
        return self.about.replace(" ", "-")

    @property
    def listed(self) -> tuple[Metric, ...]:
        return (self.metrics,) if isinstance(self.metrics, Metric) else self.metrics


def expected(case: Case) -> Object:
    change = case.end - case.size
    action = str(of.action_of(change))
    usual = f"{'SucceededRescale' if change else 'ReadyForNewScale'} ValidMetricFound DesiredWithinRange"
    reasons = f"{usual} {case.but}" if case.only is None else case.only
    facts = {"end": case.end, "why": case.why, "metric": case.listed[0].name}
    conditions = {}
    for reason in reasons.split():
        type_, status, message = REASONS[reason]
        conditions[type_] = (status, reason, message.format(**facts))
    usually = [(action, "none", metric.spec["type"]) for metric in case.listed]
    found: Object = {
        "written": [case.end] if change else [],
        "sizes": (case.size, case.end),
        "conditions": conditions,
        "rescaled": [f"New size: {case.end}; reason: {_reason(case)}"] if change else [],
        "scaled_at": format_time(NOW if change else NOW - 1),
        "warned": case.warned.split(),
        "reconciled": {(action, case.fault): 1},
        "computed": dict.fromkeys(usually if case.computed is None else case.computed, 1),
    }
    return found if case.percent is None else {**found, "percent": case.percent}


def _reason(case: Case) -> str:
    if case.size > case.bounds[1]:
        return "Current number of replicas above Spec.MaxReplicas"
    idle = not any(case.values)
    if case.size < case.bounds[0] and (case.size > 0 or idle):  # at zero the metrics count first
        return "Current number of replicas below Spec.MinReplicas"
    return f"{case.listed[0].name} above target" if case.end > case.size else "All metrics below target"


def scene_of(case: Case) -> Scene:
    rules = {} if case.behavior is None else {"behavior": case.behavior}
    reference = {"apiVersion": "v1" if case.kind == "ReplicationController" else "apps/v1", "kind": case.kind}
    specs = [metric.spec for metric in case.listed]
    lowest, highest = case.bounds
    spec = {"scaleTargetRef": {**reference, "name": "web"}, "minReplicas": lowest, "maxReplicas": highest, **rules}
    shown = autoscaler(*specs, **spec)
    before = [
        dict(zip(("type", "status", "message"), REASONS[reason], strict=True)) | {"reason": reason}
        for reason in case.was
    ]
    sizes = {"currentReplicas": case.size, "desiredReplicas": case.size}
    shown["status"] = {**sizes, "lastScaleTime": format_time(NOW - 1), "conditions": before}  # no pause follows
    letters = case.pods or "r" * case.size
    pods = [_pod(number, letter, case.requests) for number, letter in enumerate(letters) if letter != "-"]
    scale = {
        "spec": {"replicas": case.size},
        "status": {"replicas": case.size if case.reported is None else case.reported, "selector": "app=web"},
    }
    scene = Scene(
        shown,
        *pods or [_pod(0, "r", case.requests, app="other")],
        scale=scale,
        measured=lambda fetch: _evaluate_and_measure(fetch, case),
        scales_to_zero=case.zeroes,
        tolerates=case.tolerates,
    )
    if case.known:
        look_in_vain(scene, ago=400)
    return scene


def proposed(case: Case, tolerances: Tolerances) -> tuple[int, Object]:
    """Evaluate the first metric alone. Returns its replicas and status. Raises MetricError."""
    scene = scene_of(case)
    reported = case.size if case.reported is None else case.reported
    target = ScaledTarget("default", parse_label_selector("app=web"), case.size, reported, tolerances)
    running: Any = scene.sources.evaluate(metric_spec(case.listed[0].spec), target)
    found: Any = drive_steps(running, scene.answer, tables=scene.bench.tables).result
    return found.replicas, next(each["current"] for each in found.status.values() if isinstance(each, dict))


def look_in_vain(scene: Scene, *, ago: float) -> None:
    """Evaluate without measurements, `ago` seconds in the past: only the recommendation of then is kept."""
    shown = scene.bench.tables[HORIZONTAL_POD_AUTOSCALERS].get(KEY)
    assert shown is not None
    measured, scene.measured = scene.measured, lambda _: WENT_WRONG
    scene.bench.clock.advance(-ago)
    scene.look()
    scene.bench.clock.advance(ago)
    meta = {name: value for name, value in shown["metadata"].items() if name != "resourceVersion"}
    scene.bench.show(HORIZONTAL_POD_AUTOSCALERS, {**shown, "metadata": meta})
    scene.measured = measured
    scene.registry.clear()


def looked(case: Case, scene: Scene | None = None) -> Object:
    """Return the results of one evaluation."""
    scene = scene or scene_of(case)
    driven = scene.look()
    scales = [decode_object(update.body) for update in driven.of(Update) if update.subresource == "scale"]
    status = scene.status
    found: Object = {
        "written": [scale["spec"]["replicas"] for scale in scales],
        "sizes": (status["currentReplicas"], status["desiredReplicas"]),
        "conditions": {
            condition["type"]: (condition["status"], condition["reason"], condition["message"])
            for condition in status["conditions"]
        },
        "rescaled": [message for _, reason, message in driven.events if reason == "SuccessfulRescale"],
        "scaled_at": status["lastScaleTime"],
        "warned": [reason for type_, reason, _ in driven.events if type_ == "Warning"],
        "reconciled": scene.shown(of.RECONCILIATIONS),
        "computed": scene.shown(of.COMPUTATIONS),
    }
    return found if case.percent is None else {**found, "percent": _percent(status)}


def _percent(status: Object) -> Any:
    current = status["currentMetrics"][0]
    return next(each["current"]["averageUtilization"] for each in current.values() if isinstance(each, dict))


def _pod(number: int, letter: str, requests: tuple[int, ...], app: str = "web") -> Object:
    meta = {"name": f"p{number}", "namespace": "default", "labels": {"app": app}}
    if letter == "d":
        meta["deletionTimestamp"] = NEVER_CHANGED
    since = format_time(NOW) if letter in "hH" else NEVER_CHANGED
    condition = {"type": "Ready", "status": "True" if letter in "rh" else "False", "lastTransitionTime": since}
    phase = {"f": "Failed", "p": "Pending"}.get(letter, "Running")
    status = {"phase": phase, "startTime": since, "conditions": [condition]}
    requested = requests[min(number, len(requests) - 1)]
    half = {"requests": {"cpu": f"{requested // 2}m"}} if requested else {}
    containers = [{"name": name, "resources": half} for name in "ab"]
    return {"metadata": meta, "spec": {"containers": containers}, "status": status}


def _evaluate_and_measure(fetch: Fetch, case: Case) -> Outcome:
    _, _, group, *rest = fetch.path.split("/")
    if group in case.broken:
        return WENT_WRONG
    now = {"timestamp": format_time(NOW)}
    named = list(enumerate(case.values))
    if group == "metrics.k8s.io":
        items = [{**now, "metadata": {"name": f"p{i}"}, "window": "60s", "containers": _usage(v)} for i, v in named]
    elif group == "custom.metrics.k8s.io" and not rest:
        return Done(orjson.dumps({"preferredVersion": {"version": "v1beta2"}}))
    elif rest[-2] == "*":
        items = [{**now, "describedObject": {"name": f"p{i}"}, "value": f"{value}m"} for i, value in named]
    elif group == "custom.metrics.k8s.io":
        assert rest[-3:] == ["deployments.apps", "other", "qps"]
        items = [{**now, "value": f"{case.values[0]}m"}]
    else:
        items = [{**now, "value": f"{value}m"} for value in case.values]
    return Done(orjson.dumps({"items": items}))


def _usage(value: int | tuple[int, ...]) -> list[Object]:
    """Return this usage for each resource."""
    parts = (value // 2, value - value // 2) if isinstance(value, int) else value
    resources = ("cpu", "memory", "custom-resource")
    return [
        {"name": name, "usage": dict.fromkeys(resources, f"{part}m")} for name, part in zip("ab", parts, strict=False)
    ]
