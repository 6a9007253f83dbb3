"""Subresource pods/ephemeralcontainers, which adds containers to a running pod, as for `kubectl debug`.

Source: kubernetes v1.36 pkg/registry/core/pod/strategy.go (podEphemeralContainersStrategy),
pkg/apis/core/validation/validation.go (validateEphemeralContainers, ValidatePodEphemeralContainersUpdate).
"""

from __future__ import annotations

from kcm.protocols.objects import Object, annotations_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, quoted
from kcm.runtime.apiserver.kinds.pod_spec.annotations import MIRROR
from kcm.runtime.apiserver.kinds.pod_spec.validation import validate_pod_spec
from kcm.runtime.apiserver.rules.cells import part
from kcm.runtime.apiserver.schema.inner_forms import difference

FIELD = "ephemeralContainers"
_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


def prepare(new: Object, old: Object, _now: str) -> None:
    """Restore all fields of the old pod except spec.ephemeralContainers; increment the generation if they changed."""
    kept, given = dict(old["spec"]), new["spec"].get(FIELD)
    kept.pop(FIELD, None)
    if given:
        kept[FIELD] = given
    new["spec"], new["status"] = kept, old["status"]
    new["metadata"] = {
        **{name: value for name, value in new["metadata"].items() if name not in _METADATA},
        **{name: old["metadata"][name] for name in _METADATA if name in old["metadata"]},
    }
    if kept != old["spec"]:
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def validate(new: Object, old: Object) -> list[FieldError]:
    if MIRROR in annotations_of(old):
        return [forbidden("", "static pods do not support ephemeral containers")]
    errors = validate_pod_spec(new["spec"], "spec")
    field, now = f"spec.{FIELD}", {container.get("name"): container for container in part(new, "spec").get(FIELD) or ()}
    for container in part(old, "spec").get(FIELD) or ():
        name = container.get("name") or ""
        if name not in now:
            errors.append(forbidden(field, f"existing ephemeral containers {quoted(name)} may not be removed\n"))
        elif now[name] != container:
            lines = difference(container, now[name], "core.EphemeralContainer")
            detail = f"existing ephemeral containers {quoted(name)} may not be changed\n{lines}"
            errors.append(forbidden(field, detail))
    return errors
