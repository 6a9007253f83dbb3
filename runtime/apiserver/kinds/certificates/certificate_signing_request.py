"""CertificateSigningRequests (certificates.k8s.io/v1): validation and table columns.

The server records the requester in the spec, which is immutable. The subresource approval adds the conditions Approved
and Denied. The subresource status sets the certificate, once, and all other conditions.

Difference: upstream accepts some invalid values in objects of older releases (the legacy signer, unknown usages,
several conditions of a type). They cannot exist here, as this server has never accepted them.

Source: kubernetes pkg/registry/certificates/certificates/strategy.go, pkg/apis/certificates/validation/validation.go,
pkg/printers/internalversion/printers.go (printCertificateSigningRequest) (v1.36).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.protocols.times import human_duration
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.certificates.shared.signer_names import validate_signer_name
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy, SubresourceUpdate
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.apiserver.rules.cells import NONE, age_cell, items, name_cell, part
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, fields_at
from kcm.runtime.x509.usages import ALL_USAGES

LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
SHORTEST = 600  # seconds
_DECISIONS = ("Approved", "Denied")
_ALWAYS_TRUE = (*_DECISIONS, "Failed")
_STATUSES = ("False", "True", "Unknown")
_SPEC = ("request", "signerName", "expirationSeconds", "usages", "username", "uid", "groups", "extra")


def set_requester(request: Object, user: User) -> None:
    fields = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    for field, value in fields.items():
        if value:
            request["spec"][field] = value
        else:
            request["spec"].pop(field, None)


def validate(request: Object) -> list[FieldError]:
    """Validate the spec of a CertificateSigningRequest. Updates keep the old spec."""
    spec = request["spec"]
    errors = list(_request_errors(spec.get("request") or ""))
    usages = spec.get("usages") or []
    if not usages:
        errors.append(required("spec.usages"))
    errors += [
        not_supported(f"spec.usages[{number}]", usage, sorted(ALL_USAGES))
        for number, usage in enumerate(usages)
        if usage not in ALL_USAGES
    ]
    errors += [
        duplicate(f"spec.usages[{number}]", usage) for number, usage in enumerate(usages) if usage in usages[:number]
    ]
    signer = spec.get("signerName") or ""
    if signer == LEGACY_SIGNER:
        detail = "the legacy signerName is not allowed via this API version"
        errors.append(invalid("spec.signerName", signer, detail))
    else:
        errors += validate_signer_name("spec.signerName", signer)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < SHORTEST:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, detail))
    return errors


def _request_errors(request: str) -> Iterator[FieldError]:
    from kcm.runtime.x509.requests import RequestError, check_signature, parse_request  # heavy: cryptography

    try:
        check_signature(parse_request(base64.b64decode(request)))
    except RequestError as err:
        yield invalid("spec.request", request, str(err))


def _condition_errors(request: Object) -> Iterator[FieldError]:
    path = "status.conditions"
    seen: set[str] = set()
    for number, condition in enumerate(items(part(request, "status"), "conditions")):
        kind, status = condition.get("type") or "", condition.get("status") or ""
        if not kind:
            yield required(f"{path}[{number}].type")
        allowed = ("True",) if kind in _ALWAYS_TRUE else _STATUSES
        if not status:
            yield required(f"{path}[{number}].status")
        elif status not in allowed:
            yield not_supported(f"{path}[{number}].status", status, allowed)
        if kind in _DECISIONS and seen & ({*_DECISIONS} - {kind}):
            yield invalid(path, kind, "Approved and Denied conditions are mutually exclusive")
        if kind in seen:
            yield duplicate(f"{path}[{number}].type", kind)
        seen.add(kind)


def _certificate_errors(new: Object, old: Object) -> Iterator[FieldError]:
    content, before = (part(request, "status").get("certificate") or "" for request in (new, old))
    if content == before or not content:
        return
    if problem := _certificate_problem(base64.b64decode(content)):
        yield invalid("status.certificate", "<certificate data>", problem)


def _certificate_problem(pem: bytes) -> str:
    from kcm.runtime.x509.pem import blocks
    from kcm.runtime.x509.requests import certificate_problem  # heavy: cryptography

    found = list(blocks(pem))
    for block in found:
        if block.type != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.type}"'
        if block.has_headers:
            return "no PEM block headers are permitted"
        if problem := certificate_problem(block.data):
            return problem
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def _validate_change(new: Object, old: Object, *, signs: bool, decides: bool) -> list[FieldError]:
    """Validate an update of the status of a CertificateSigningRequest.

    signs: whether the update may set the certificate (subresource status)
    decides: whether the update may add the conditions Approved and Denied (subresource approval)
    """
    errors = [*_condition_errors(new), *_certificate_errors(new, old)]
    path = "status.conditions"
    more = {kind: len(_conditions(new, kind)) - len(_conditions(old, kind)) for kind in _ALWAYS_TRUE}
    errors += [
        forbidden(path, f'updates may not remove a condition of type "{kind}"')
        for kind in _ALWAYS_TRUE
        if more[kind] < 0
    ]
    errors += [
        forbidden(path, f'updates may not add a condition of type "{kind}"')
        for kind in _DECISIONS
        if more[kind] > 0 and not decides
    ]
    certificate, before = (part(request, "status").get("certificate") or "" for request in (new, old))
    if certificate != before and not signs:
        errors.append(forbidden("status.certificate", "updates may not set certificate content"))
    elif certificate != before and before:
        errors.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
    return errors


def _conditions(request: Object, kind: str) -> list[Object]:
    return [condition for condition in items(part(request, "status"), "conditions") if condition.get("type") == kind]


def prepare_for_status_update(new: Object, old: Object, now: str) -> None:
    """Restore the old spec, and the old conditions Approved and Denied unless one was added or removed.

    Validation rejects an added or removed condition.
    """
    new["spec"] = old["spec"]
    status = new["status"] = dict(new.get("status") or {})
    for kind in _DECISIONS:
        before = _conditions(old, kind)
        if len(before) == len(_conditions(new, kind)):
            kept = iter(before)
            status["conditions"] = [
                next(kept) if condition.get("type") == kind else condition
                for condition in status.get("conditions") or ()
            ]
    _set_times(new, old, now)


def prepare_for_approval(new: Object, old: Object, now: str) -> None:
    """Restore everything except the conditions from the old object."""
    new["spec"] = old["spec"]
    _set_times(new, old, now)
    conditions = new["status"].get("conditions")
    new["status"] = {name: value for name, value in (old.get("status") or {}).items() if name != "conditions"}
    if conditions:
        new["status"]["conditions"] = conditions


def _set_times(new: Object, old: Object, now: str) -> None:
    """Set missing lastUpdateTime and lastTransitionTime of conditions to `now`.

    lastTransitionTime is taken from the old condition if its status is the same.
    """
    status = new["status"] = dict(new.get("status") or {})
    conditions = []
    for condition in status.pop("conditions", None) or ():
        same = (
            earlier["lastTransitionTime"]
            for earlier in _conditions(old, condition.get("type"))
            if earlier.get("status") == condition.get("status") and earlier.get("lastTransitionTime")
        )
        conditions.append(
            {
                **condition,
                "lastUpdateTime": condition.get("lastUpdateTime") or now,
                "lastTransitionTime": condition.get("lastTransitionTime") or next(same, now),
            }
        )
    if conditions:
        status["conditions"] = conditions


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    return _validate_change(new, old, signs=True, decides=False)


def validate_approval(new: Object, old: Object) -> list[FieldError]:
    return _validate_change(new, old, signs=False, decides=True)


def cells(request: Object, now: float) -> list[Any]:
    spec = part(request, "spec")
    seconds = spec.get("expirationSeconds")
    return [
        name_cell(request),
        age_cell(request, now),
        spec.get("signerName") or NONE,
        spec.get("username") or "",
        NONE if seconds is None else human_duration(seconds),
        _state(request),
    ]


def _state(request: Object) -> str:
    status = part(request, "status")
    types = {condition.get("type") for condition in items(status, "conditions")}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


RESOURCE = ResourceDefinition(
    group="certificates.k8s.io",
    version="v1",
    plural="certificatesigningrequests",
    kind="CertificateSigningRequest",
    short_names=("csr",),
    namespaced=False,
    subresources=("approval", "status"),
    strategy=Strategy(
        validate_name=lambda _name: [],
        set_requester=set_requester,
        validate=validate,
        update_keeps=_SPEC,
        has_status=True,
        subresource_updates={
            "status": SubresourceUpdate(prepare=prepare_for_status_update, validate=validate_status_update),
            "approval": SubresourceUpdate(prepare=prepare_for_approval, validate=validate_approval),
        },
        selectable_fields=fields_at("spec.signerName"),
        unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
    ),
    printer=Printer(
        columns=(
            NAME,
            AGE,
            Column("SignerName"),
            Column("Requestor"),
            Column("RequestedDuration"),
            Column("Condition"),
        ),
        cells=cells,
    ),
)
