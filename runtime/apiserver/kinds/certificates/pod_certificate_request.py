"""PodCertificateRequests (certificates.k8s.io/v1beta1): defaults, validation and table columns.

Kubelets create them to request certificates for the service account of a pod. Upstream serves them if the feature gate
PodCertificateRequest and the group version are enabled. Difference: the status is validated only in its conditions
(Issued, Denied or Failed, set once); the certificate chain is not parsed.

Source: kubernetes pkg/registry/certificates/podcertificaterequest/strategy.go,
pkg/apis/certificates/v1beta1/zz_generated.defaults.go, pkg/apis/certificates/validation/validation.go,
pkg/printers/internalversion/printers.go (printPodCertificateRequest) (v1.36).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, too_long
from kcm.runtime.apiserver.kinds.certificates.shared.signer_names import is_kubernetes_signer, validate_signer_name
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import items, label_cell, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.object_meta import IMMUTABLE
from kcm.runtime.apiserver.rules.selectable_fields import FIELD_LABEL_NOT_SUPPORTED, fields_at

DAY = 86400
SHORTEST, LONGEST, LONGEST_OF_KUBERNETES = 3600, 91 * DAY, DAY  # seconds
LONGEST_UID = 128  # characters
LARGEST = 10 * 1024  # bytes, for each of KEY_PARTS
END_STATES = ("Issued", "Denied", "Failed")
KEY_PARTS = ("stubPKCS10Request", "pkixPublicKey", "proofOfPossession")


def set_defaults(request: Object) -> None:
    request["spec"].setdefault("maxExpirationSeconds", DAY)


def validate(request: Object) -> list[FieldError]:
    spec = request["spec"]
    errors = validate_signer_name("spec.signerName", spec.get("signerName", ""))
    for subject in ("pod", "serviceAccount", "node"):
        name, uid = spec.get(f"{subject}Name", ""), spec.get(f"{subject}UID", "")
        errors += [invalid(f"spec.{subject}Name", name, text) for text in dns_subdomain(name)]
        if not uid:
            errors.append(invalid(f"spec.{subject}UID", "", "must not be empty"))
        if len(uid) > LONGEST_UID:
            errors.append(too_long(f"spec.{subject}UID", LONGEST_UID))
    longest = LONGEST_OF_KUBERNETES if is_kubernetes_signer(spec.get("signerName", "")) else LONGEST
    seconds = spec["maxExpirationSeconds"]
    if not SHORTEST <= seconds <= longest:
        detail = f"must be in the range [{SHORTEST}, {longest}]"
        errors.append(invalid("spec.maxExpirationSeconds", seconds, detail))
    return [*errors, *_key_errors(spec)]


def _key_errors(spec: Object) -> Iterator[FieldError]:
    from kcm.runtime.x509.possession import proof_problem, stub_problem  # heavy: cryptography

    stub, key, proof = (base64.b64decode(spec.get(name) or "") for name in KEY_PARTS)
    for name, content in zip(KEY_PARTS, (stub, key, proof), strict=True):
        if len(content) > LARGEST:
            yield too_long(f"spec.{name}", LARGEST)
            return
    if stub and not key and not proof:
        wrong = stub_problem(stub)
    elif not stub and key and proof:
        wrong = proof_problem(key, spec["pkixPublicKey"], proof, spec.get("podUID", ""))
    else:
        text = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        yield FieldError("FieldValueInvalid", "spec", _OMITTED, text)
        return
    if wrong is not None:
        value = _OMITTED if wrong.value is None else wrong.value
        yield FieldError("FieldValueInvalid", f"spec.{wrong.field}", value, wrong.text)


_OMITTED = "<value omitted>"


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return [invalid("spec", new["spec"], IMMUTABLE)] if new["spec"] != old["spec"] else []


def validate_status_update(new: Object, old: Object) -> list[FieldError]:
    conditions, path = items(part(new, "status"), "conditions"), "status.conditions"
    errors: list[FieldError] = []
    for number, condition in enumerate(conditions):
        kind, status = condition.get("type", ""), condition.get("status", "")
        if kind not in END_STATES:
            errors.append(not_supported(f"{path}[{number}].type", kind, END_STATES))
            continue
        if number:
            text = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(invalid(f"{path}[{number}].type", kind, text))
        if status != "True":
            errors.append(not_supported(f"{path}[{number}].status", status, ("True",)))
    if errors:
        return errors
    before, now = part(old, "status"), part(new, "status")
    if items(before, "conditions"):
        text = "immutable after PodCertificateRequest is issued, denied, or failed"
        return [] if now == before else [invalid("status", _OMITTED, text)]
    if conditions and conditions[0]["type"] != "Issued" and {*now} != {"conditions"}:
        text = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        return [invalid("status", _OMITTED, text)]
    if not conditions and now != before:
        text = 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"'
        return [invalid("status", _OMITTED, text)]
    return []


def cells(request: Object, _now: float) -> list[Any]:
    spec, state = part(request, "spec"), "Pending"
    for condition in items(part(request, "status"), "conditions"):
        if condition.get("type") in END_STATES:
            state = condition["type"]
    words = [spec.get(field) or "" for field in ("podName", "serviceAccountName", "nodeName", "signerName")]
    return [name_cell(request), *words, state, label_cell(spec.get("unverifiedUserAnnotations"))]


RESOURCE = ResourceDefinition(
    group="certificates.k8s.io",
    version="v1beta1",
    plural="podcertificaterequests",
    kind="PodCertificateRequest",
    subresources=("status",),
    strategy=Strategy(
        validate_name=dns_subdomain,
        set_defaults=set_defaults,
        validate=validate,
        allow_unconditional_update=False,
        validate_update=validate_update,
        has_status=True,
        validate_status_update=validate_status_update,
        selectable_fields=fields_at("spec.signerName", "spec.podName", "spec.nodeName"),
        unsupported_field=FIELD_LABEL_NOT_SUPPORTED,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("PodName"),
            Column("ServiceAccountName"),
            Column("NodeName"),
            Column("SignerName"),
            Column("State"),
            Column("UnverifiedUserAnnotations"),
        ),
        cells=cells,
    ),
)
