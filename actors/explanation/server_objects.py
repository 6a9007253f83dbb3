"""Causes of CertificateSigningRequests and APIServices, and of objects whose owner does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from kcm.actors.explanation import responsible
from kcm.actors.explanation.case import Case, condition_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.kinds import GARBAGE_COLLECTOR, resource_of_kind
from kcm.protocols import resources as r
from kcm.protocols.objects import metadata, uid_of

SETTLING = 30.0  # seconds in which an approver or a signer responds
SIGNER = "certificatesigningrequest-signing-controller"
BUILT_IN_SIGNERS = "kubernetes.io/"

# CertificateSigningRequests.


def request_pending(case: Case) -> str:
    if case.status.get("certificate"):
        return ""
    for type in ("Denied", "Failed"):
        if (condition := case.condition_is(type, "True")) is not None:
            return condition_line(condition)
    approved = case.condition_is("Approved", "True") is not None
    return "it is approved and has no certificate" if approved else "it is not approved"


def request_causes(case: Case) -> Iterator[Cause]:
    if not request_pending(case):
        return
    signer = case.spec.get("signerName") or ""
    for type, code, text in (
        ("Denied", "csr-denied", "the request was denied"),
        ("Failed", "csr-failed", "the signer rejected the request"),
    ):
        if (condition := case.condition_is(type, "True")) is not None:
            yield case.cause(
                code,
                f"{text}: {condition.get('message') or condition.get('reason')}",
                condition_line(condition),
                since=condition.get("lastTransitionTime"),
            )
            return
    approved = case.condition_is("Approved", "True")
    if approved is None:
        if case.created is not None and case.now - case.created > SETTLING:
            yield case.cause(
                "csr-unapproved",
                f"the request of {case.spec.get('username')} for {signer} is not approved",
                "no condition Approved",
                since=case.created,
            )
        return
    since = approved.get("lastTransitionTime")
    if signer.startswith(BUILT_IN_SIGNERS):
        yield from responsible.not_working(case, (SIGNER,))
    elif (age := case.evidence.age(since)) is None or age > SETTLING:
        yield case.cause(
            "csr-unsigned",
            f"the signer {signer} has not signed the approved request",
            condition_line(approved),
            since=since,
        )


# APIServices.


def api_service_pending(case: Case) -> str:
    available = case.condition("Available")
    if available is None:
        return "its availability is not known" if case.spec.get("service") else ""
    return "" if available.get("status") == "True" else condition_line(available)


def api_service_causes(case: Case) -> Iterator[Cause]:
    available = case.condition_is("Available", "False")
    if available is None:
        return
    service = case.spec.get("service") or {}
    key = f"{service.get('namespace')}/{service.get('name')}"
    found = case.evidence.get(r.SERVICES, key)
    yield from case.follow(r.SERVICES, found)
    missing = found is None and case.evidence.is_missing(r.SERVICES, key)
    yield case.cause(
        "api-service-unavailable",
        f"its service {key} does not exist" if missing else f"its API is not available: {available.get('message')}",
        condition_line(available),
        since=available.get("lastTransitionTime"),
    )


# Owners.


def orphaned(case: Case) -> Iterator[Cause]:
    """Yield the owners that do not exist, although the object was not deleted with them."""
    references = metadata(case.obj).get("ownerReferences") or ()
    missing = [ref for ref in references if _is_missing(case, ref)]
    if not references or len(missing) < len(references):
        return
    idle = list(responsible.not_working(case, (GARBAGE_COLLECTOR,)))
    for reference in missing[:1]:
        for trouble in idle:
            yield case.cause(
                "missing-owner",
                f"its owner {reference.get('kind')} {reference.get('name')} does not exist, and it was not deleted: "
                f"{trouble.summary}",
                *trouble.evidence,
                controller=GARBAGE_COLLECTOR,
                commands=trouble.commands,
            )


def _is_missing(case: Case, reference: dict[str, str]) -> bool:
    resource = resource_of_kind(reference.get("apiVersion") or "", reference.get("kind") or "")
    if resource is None:
        return False
    name = reference.get("name") or ""
    key = f"{case.namespace}/{name}" if resource.namespaced else name
    found = case.evidence.get(resource, key)
    if found is not None:
        return uid_of(found) != reference.get("uid")
    return case.evidence.is_missing(resource, key)
