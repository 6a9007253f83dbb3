"""Jobs (batch/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/batch/job/strategy.go, pkg/apis/batch/v1/defaults.go,
pkg/apis/batch/validation/validation.go, pkg/printers/internalversion/printers.go (printJob) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object, is_deleting
from kcm.protocols.times import human_duration, parse_time
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, required
from kcm.runtime.apiserver.kinds.batch.job.status import wrong_job_status
from kcm.runtime.apiserver.kinds.batch.job.validation import INDEXED, validate_job_spec
from kcm.runtime.apiserver.kinds.batch.job.warnings import warnings_of_job
from kcm.runtime.apiserver.kinds.pod_spec.defaults import default_pod_template
from kcm.runtime.apiserver.kinds.pod_spec.workloads import (
    TEMPLATE,
    TEMPLATE_COLUMNS,
    UNMATCHED,
    count,
    template_cells,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import GarbageCollectionPolicy, Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, is_true, name_cell, part, selector_cell
from kcm.runtime.apiserver.rules.conditions import fill_times
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.selectable_fields import count_at
from kcm.runtime.apiserver.rules.selectors import selects, validate_selector
from kcm.runtime.apiserver.rules.warnings import of_hostname
from kcm.runtime.apiserver.schema.inner_forms import inner_form

_IMMUTABLE = {
    "completionMode": "*string",
    "podFailurePolicy": "*batch.PodFailurePolicy",
    "backoffLimitPerIndex": "*int32",
    "managedBy": "*string",
    "successPolicy": "*batch.SuccessPolicy",
}

_MAX_INT32 = 2**31 - 1


def set_defaults(job: Object) -> None:
    spec = job.setdefault("spec", {})
    _set_spec_defaults(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _set_spec_defaults(spec: Object) -> None:
    default_pod_template(spec.setdefault("template", {}))
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _MAX_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)


def generate_selector(job: Object) -> None:
    """Set the selector and labels that match the pods of a new Job by its uid, unless manualSelector is set.

    Source: kubernetes pkg/registry/batch/job/strategy.go, generateSelector.
    """
    spec = job["spec"]
    if spec["manualSelector"]:
        return
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    labels = spec["template"]["metadata"].setdefault("labels", {})
    for key, value in (("controller-uid", uid), ("job-name", name)):
        labels.setdefault(key, value)  # validation rejects other values
        labels.setdefault(f"batch.kubernetes.io/{key}", value)
    spec.setdefault("selector", {}).setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


def canonicalize(job: Object) -> None:
    """Set the labels of a Job without labels to those of its pod template, including the ones from
    generate_selector.
    """
    set_defaults(job)


def prepare_for_status_update(new: Object, _old: Object) -> None:
    fill_times(new, "lastProbeTime", "lastTransitionTime")


def validate(job: Object) -> list[FieldError]:
    spec = job["spec"]
    return [*_wrong_generated_selector(job), *validate_job_spec(spec, "spec"), *_wrong_selector(spec)]


def validate_create(job: Object) -> list[FieldError]:
    """Validate that the hostname of the last pod of an indexed Job, such as name-99, is a DNS label."""
    spec, name = job["spec"], job["metadata"].get("name") or ""
    if spec.get("completionMode") != INDEXED or not (spec.get("completions") or 0) > 0:
        return []
    last = f"{name}-{spec['completions'] - 1}"
    detail = f"will not able to create pod with invalid DNS label: {last}"
    return [invalid("metadata.name", name, detail)] if dns_label(last) else []


def _wrong_generated_selector(job: Object) -> Iterator[FieldError]:
    spec = job["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    uid, name = job["metadata"]["uid"], job["metadata"].get("name") or ""
    labels = spec["template"]["metadata"].get("labels") or {}
    expected = {}
    for key, value in (("controller-uid", uid), ("job-name", name)):
        for label in (key, f"batch.kubernetes.io/{key}"):
            expected[label] = value
            at = f"{TEMPLATE}.metadata.labels"
            if label not in labels:
                yield required(at, f"must be '{value}'")
            elif labels[label] != value:
                yield invalid(f"{at}[{label}]", dict(sorted(labels.items())), f"must be '{value}'")
    if selects(spec["selector"], expected) is False:
        yield invalid("spec.selector", _sorted_selector(spec["selector"]), "`selector` not auto-generated")


def _wrong_selector(spec: Object) -> Iterator[FieldError]:
    selector, labels = spec.get("selector"), spec["template"]["metadata"].get("labels")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from validate_selector(selector, "spec.selector")
    if selector is None or selects(selector, labels or {}) is False:
        shown = None if labels is None else dict(sorted(labels.items()))
        yield invalid(f"{TEMPLATE}.metadata.labels", shown, UNMATCHED)


def _sorted_selector(selector: Object) -> Object:
    """Return the selector with its labels sorted by key, as Go encodes it."""
    labels = selector.get("matchLabels")
    return selector if labels is None else {**selector, "matchLabels": dict(sorted(labels.items()))}


def validate_update(new: Object, old: Object) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    errors = [
        *validate_job_spec(spec, "spec"),
        *_wrong_selector(spec),
    ]  # upstream validates the spec twice and reports both
    errors += _wrong_completions(spec, before)
    if spec.get("selector") != before.get("selector"):
        errors.append(invalid("spec.selector", _sorted_selector(spec.get("selector") or {}), IMMUTABLE))
    errors += _wrong_template(spec, before)
    for name, type_ in _IMMUTABLE.items():
        if spec.get(name) != before.get(name):
            errors.append(invalid(f"spec.{name}", inner_form(spec.get(name), type_), IMMUTABLE))
    return errors


def _wrong_completions(spec: Object, before: Object) -> list[FieldError]:
    """Validate a change of completions: only an indexed Job may change it, to the same value as parallelism."""
    now = spec.get("completions")
    if now == before.get("completions"):
        return []
    if spec.get("completionMode") != INDEXED:
        return [invalid("spec.completions", now, IMMUTABLE)]
    if now is None or now == spec.get("parallelism"):
        return []
    return [invalid("spec.completions", now, "can only be modified in tandem with spec.parallelism")]


def _wrong_template(spec: Object, before: Object) -> list[FieldError]:
    """Validate an update of the pod template, which is immutable unless the Job is suspended.

    A suspended Job may change resources, nodeSelector, tolerations, affinity and schedulingGates.
    """
    template, old = spec["template"], before["template"]
    if not before.get("suspend"):
        same = template == old
        return [] if same else [invalid(TEMPLATE, inner_form(template, "core.PodTemplateSpec"), IMMUTABLE)]
    wanted = dict(old["spec"])
    for name in ("nodeSelector", "tolerations", "schedulingGates", "affinity"):
        wanted.pop(name, None)
        if name in template["spec"]:
            wanted[name] = template["spec"][name]
    for name in ("containers", "initContainers"):
        if name in wanted:
            wanted[name] = _with_resources(wanted[name], template["spec"].get(name) or [])
    if template["spec"] == wanted:
        return []
    return [invalid(f"{TEMPLATE}.spec", inner_form(template["spec"], "core.PodSpec"), IMMUTABLE)]


def _with_resources(old: list[Object], new: list[Object]) -> list[Object]:
    if [container.get("name") for container in old] != [container.get("name") for container in new]:
        return old
    return [{**container, "resources": other["resources"]} for container, other in zip(old, new, strict=True)]


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    return list(wrong_job_status(new, old))


def warn(new: Object, old: Object | None) -> Iterator[str]:
    if old is None:
        yield from of_hostname(new, "Pod names and hostnames")
    if old is None or new["spec"] != old["spec"]:
        yield from warnings_of_job(new["spec"], "spec")


def cells(obj: Object, now: float) -> list[Any]:
    return [
        name_cell(obj),
        _status(obj),
        _completions(obj),
        _duration(obj, now),
        age_cell(obj, now),
        *template_cells(obj),
        selector_cell(part(obj, "spec").get("selector")),
    ]


def _status(obj: Object) -> str:
    status = part(obj, "status")
    if is_true(status, "Complete"):
        return "Complete"
    if is_true(status, "Failed"):
        return "Failed"
    if is_deleting(obj):
        return "Terminating"
    for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(status, type_):
            return type_
    return "Running"


def _completions(obj: Object) -> str:
    succeeded, spec = count(obj, "status", "succeeded"), part(obj, "spec")
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(obj: Object, now: float) -> str:
    status = part(obj, "status")
    try:
        started = parse_time(status["startTime"])
        ended = parse_time(status["completionTime"]) if status.get("completionTime") else now
    except (KeyError, ValueError):
        return ""
    return human_duration(ended - started)


RESOURCE = ResourceDefinition(
    group="batch",
    version="v1",
    plural="jobs",
    kind="Job",
    categories=("all",),
    subresources=("status",),
    strategy=Strategy(
        warn=warn,
        validate_name=dns_subdomain,
        has_generation=True,
        set_defaults=set_defaults,
        prepare_for_create=generate_selector,
        canonicalize=canonicalize,
        prepare_for_status_update=prepare_for_status_update,
        validate=validate,
        validate_create=validate_create,
        validate_update=validate_update,
        has_status=True,
        validate_status_update=validate_status_update,
        default_garbage_collection_policy=GarbageCollectionPolicy.ORPHAN_DEPENDENTS,
        selectable_fields={"status.successful": count_at("status.succeeded")},
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("Status"),
            Column("Completions"),
            Column("Duration"),
            AGE,
            *TEMPLATE_COLUMNS,
        ),
        cells=cells,
    ),
)
