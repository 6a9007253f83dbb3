"""ResourceClaimTemplates (resource.k8s.io/v1): defaults, validation, authorization and table columns.

Source: kubernetes pkg/registry/resource/resourceclaimtemplate/strategy.go, pkg/printers/internalversion/printers.go
(printResourceClaimTemplate) (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object, namespace_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid
from kcm.runtime.apiserver.kinds.resource.shared.device_access import permit_requests
from kcm.runtime.apiserver.kinds.resource.shared.device_claims import set_claim_defaults, wrong_claim
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Granting, Strategy
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.apiserver.rules.cells import NAME_AND_AGE
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE, validate_annotations, validate_labels
from kcm.runtime.apiserver.schema.inner_forms import inner_form


def set_defaults(template: Object) -> None:
    spec = template["spec"]
    spec.setdefault("metadata", {})
    for name in ("annotations", "labels"):
        if spec["metadata"].get(name) == {}:
            del spec["metadata"][name]
    set_claim_defaults(spec.setdefault("spec", {}))


def validate_create(template: Object) -> list[FieldError]:
    spec = template["spec"]
    meta, at = spec["metadata"], "spec.metadata"
    errors = [
        forbidden(f"{at}.{name}", "cannot be set")
        for name in sorted(meta.keys() - {"annotations", "labels"})
        if meta[name]
    ]
    errors += validate_annotations(meta.get("annotations") or {}, f"{at}.annotations")
    errors += validate_labels(meta.get("labels") or {}, f"{at}.labels")
    return errors + list(wrong_claim(spec["spec"], "spec.spec"))


def permit(among: Granting, new: Object, old: Object | None, _user: User) -> list[FieldError]:
    return permit_requests(among, new["spec"]["spec"], namespace_of(new)) if old is None else []


def validate_update(new: Object, old: Object) -> list[FieldError]:
    if new["spec"] == old["spec"]:
        return []
    return [invalid("spec", inner_form(new["spec"], "resource.ResourceClaimTemplateSpec"), IMMUTABLE)]


RESOURCE = ResourceDefinition(
    group="resource.k8s.io",
    version="v1",
    plural="resourceclaimtemplates",
    kind="ResourceClaimTemplate",
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate_create=validate_create,
        permit=permit,
        validate_update=validate_update,
        return_deleted_object=True,
    ),
    printer=NAME_AND_AGE,
)
