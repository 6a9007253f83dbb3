"""Validation of updates of a pod's spec.

Clients can change images, shorten activeDeadlineSeconds, add tolerations and remove scheduling gates. While a pod has
scheduling gates, they can also restrict its nodeSelector and node affinity further.

Source: kubernetes pkg/apis/core/validation/validation.go, ValidatePodUpdate (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, required
from kcm.runtime.apiserver.kinds.pod_spec.scheduling import REQUIRED
from kcm.runtime.apiserver.schema.inner_forms import difference, inner_form

UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
_MOST = 2**31 - 1

Part = Mapping[str, Any]


def wrong_pod_update(new: Object, old: Object) -> list[FieldError]:
    spec, before = new["spec"], old["spec"]
    if spec == before:
        return []
    errors: list[FieldError] = []
    changed = dict(spec)
    for field in ("containers", "initContainers"):
        now, then = spec.get(field) or [], before.get(field) or []
        if len(now) != len(then):
            return [*errors, forbidden(f"spec.{field}", "pod updates may not add or remove containers")]
        errors += _wrong_images(now, f"spec.{field}")
        if field in before:
            changed[field] = [
                {**container, "image": new_container.get("image")}
                for container, new_container in zip(now, then, strict=True)
            ]
    deadline = list(_wrong_deadline(spec, before))
    errors += deadline
    if deadline and spec.get("activeDeadlineSeconds") is not None:
        return errors
    errors += _wrong_tolerations(spec, before)
    gates = {gate.get("name") for gate in before.get("schedulingGates") or ()}
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            errors.append(forbidden(f"spec.schedulingGates[{i}].name", detail))
    _restore(changed, before, "activeDeadlineSeconds", "tolerations", "schedulingGates")
    if (before.get("terminationGracePeriodSeconds") or 0) < 0 and changed.get("terminationGracePeriodSeconds") == 1:
        changed["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    if gates:
        errors += _wrong_node_constraints(changed, before)
    if changed != before:
        lines = difference(before, changed, "core.PodSpec")
        errors.append(forbidden("spec", f"pod updates may not change fields other than {UPDATABLE}\n{lines}"))
    return errors


def _restore(changed: Object, before: Part, *fields: str) -> None:
    for field in fields:
        changed.pop(field, None)
        if field in before:
            changed[field] = before[field]


def _wrong_images(containers: list[Object], field: str) -> Iterator[FieldError]:
    for i, container in enumerate(containers):
        image = container.get("image") or ""
        if not image:
            yield required(f"{field}[{i}].image")
        elif image.strip() != image:
            yield invalid(f"{field}[{i}].image", image, "must not have leading or trailing whitespace")


def _wrong_deadline(spec: Part, before: Part) -> Iterator[FieldError]:
    now, then = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    field = "spec.activeDeadlineSeconds"
    if now is None:
        if then is not None:
            yield invalid(field, None, "must not update from a positive integer to nil value")
    elif not 0 <= now <= _MOST:
        yield invalid(field, now, f"must be between 0 and {_MOST}, inclusive")
    elif then is not None and then < now:
        yield invalid(field, now, "must be less than or equal to previous value")


def _wrong_tolerations(spec: Part, before: Part) -> Iterator[FieldError]:
    tolerations = [{**toleration, "tolerationSeconds": None} for toleration in spec.get("tolerations") or ()]
    for toleration in before.get("tolerations") or ():
        if {**toleration, "tolerationSeconds": None} not in tolerations:
            detail = "existing toleration can not be modified except its tolerationSeconds"
            yield forbidden("spec.tolerations", detail)
            return


def _wrong_node_constraints(changed: Object, before: Part) -> Iterator[FieldError]:
    """Validate a change of nodeSelector and node affinity of a gated pod, which may only exclude more nodes.

    changed: the new spec; both fields are replaced by those of `before`, so that later comparisons ignore them
    """
    selector, then = changed.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in then.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", dict(sorted(selector.items())) or None, detail)
    _restore(changed, before, "nodeSelector")
    affinity, was = dict(changed.get("affinity") or {}), before.get("affinity") or {}
    if affinity.get("nodeAffinity") == was.get("nodeAffinity"):
        return
    yield from _wrong_terms(affinity.get("nodeAffinity") or {}, was.get("nodeAffinity") or {})
    _restore(affinity, was, "nodeAffinity")
    if affinity or "affinity" in before:
        changed["affinity"] = affinity
    else:
        changed.pop("affinity", None)


def _wrong_terms(affinity: Part, was: Part) -> Iterator[FieldError]:
    terms = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    before = (was.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    if before and len(before) != len(terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid(_TERMS, inner_form(terms or None, "[]core.NodeSelectorTerm"), detail)
        return
    for i, (term, then) in enumerate(zip(terms, before, strict=False)):
        if not _has_only_additions(term, then):
            detail = "only additions are allowed (no mutations or deletions)"
            yield invalid(f"{_TERMS}[{i}]", inner_form(term, "core.NodeSelectorTerm"), detail)


def _has_only_additions(term: Part, then: Part) -> bool:
    parts = ("matchExpressions", "matchFields")
    if not any(then.get(part) for part in parts):
        return not any(term.get(part) for part in parts)
    return all((term.get(part) or [])[: len(then.get(part) or [])] == (then.get(part) or []) for part in parts)
