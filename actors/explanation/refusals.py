"""Causes of refused writes, from the texts of the API server.

A refusal reaches users as a text only: in conditions and events of the owner, and in the decisions of controllers. The
texts are those of Kubernetes 1.36. Nothing but this explanation depends on them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from kcm.actors.explanation.case import MOST_FOLLOWED, Case
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.kinds import LIMIT_RANGES
from kcm.protocols.objects import Object, name_of
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.resources import RESOURCE_QUOTAS

# Source of the texts: kubernetes v1.36 plugin/pkg/admission and staging/src/k8s.io/apiserver/pkg/admission/plugin.
PATTERNS = (
    ("webhook-unavailable", re.compile(r'failed calling webhook "(?P<name>[^"]*)"')),
    ("webhook-denied", re.compile(r'admission webhook "(?P<name>[^"]*)" denied the request')),
    ("policy-denied", re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']*)'")),
    ("quota-exceeded", re.compile(r"exceeded quota: (?P<name>[^,\s]+)")),
    ("quota-needs-values", re.compile(r"failed quota: (?P<name>[^:\s]+): must specify")),
    ("pod-security", re.compile(r'violates PodSecurity "(?P<name>[^"]*)"')),
    (
        "service-account-missing",
        re.compile(r"serviceaccount \"(?P<name>[^\"]*)\" not found|error looking up service account (?P<other>\S+?):"),
    ),
    ("priority-class-missing", re.compile(r"no PriorityClass with name (?P<name>\S+) was found")),
    (
        "runtime-class-missing",
        re.compile(r'RuntimeClass "(?P<name>[^"]*)" not found|RuntimeClass (?P<other>\S+) not found'),
    ),
    (
        "limit-range",
        re.compile(
            r"m(?:inim|axim)um \S+ usage per (?P<name>Container|Pod|PersistentVolumeClaim)|max limit to request ratio"
        ),
    ),
    ("namespace-terminating", re.compile(r"because it is being terminated")),
    ("not-permitted", re.compile(r'User "(?P<name>[^"]*)" cannot ')),
    ("invalid-template", re.compile(r"is invalid: |is malformed|cannot be handled as a|strict decoding error")),
)
_QUOTA = re.compile(
    r"exceeded quota: (?P<name>[^,\s]+), requested: (?P<requested>\S+), used: (?P<used>\S+), "
    r"limited: (?P<limited>[^\s\"\]]+)"
)
_CALL = re.compile(r'failed to call webhook: (?:Post "[^"]*": )?(?P<why>.+)', re.DOTALL)
_ABOVE_LIMIT = re.compile(r"must be less than or equal to (?P<resource>\S+) limit of (?P<limit>[^\s,\]]+)")
SUMMARIES = {
    "webhook-unavailable": "the admission webhook {name} cannot be called, and its failurePolicy is Fail",
    "webhook-denied": "the admission webhook {name} denies it",
    "policy-denied": "the ValidatingAdmissionPolicy {name} denies it",
    "quota-exceeded": "the ResourceQuota {name} is used up",
    "quota-needs-values": "the ResourceQuota {name} requires values that the pod does not have",
    "pod-security": "the Pod Security level {name} of the namespace forbids the pod",
    "service-account-missing": "the service account {name} does not exist",
    "priority-class-missing": "the PriorityClass {name} does not exist",
    "runtime-class-missing": "the RuntimeClass {name} does not exist",
    "limit-range": "a LimitRange of the namespace forbids the values",
    "namespace-terminating": "the namespace is being deleted, so nothing can be created in it",
    "not-permitted": "RBAC does not permit it for {name}",
    "invalid-template": "the API server rejects it as invalid",
    "write-refused": "the API server refuses it",
}


# What a refusal requires: the summary contains it.
DETAILS = {
    "webhook-denied": re.compile(r"denied the request: (?P<detail>.+)", re.DOTALL),
    "policy-denied": re.compile(r"denied request: (?P<detail>.+)", re.DOTALL),
    "quota-needs-values": re.compile(r"must specify (?P<detail>.+)", re.DOTALL),
    "pod-security": re.compile(r'violates PodSecurity "[^"]*": (?P<detail>.+)', re.DOTALL),
    "limit-range": re.compile(
        r"(?P<detail>(?:m(?:inim|axim)um \S+ usage per|\S+ max limit to request ratio per) .+)", re.DOTALL
    ),
    "not-permitted": re.compile(r'User "[^"]*" (?P<detail>cannot .+)', re.DOTALL),
    "invalid-template": re.compile(r"(?:is invalid: |is malformed: |strict decoding error: )(?P<detail>.+)", re.DOTALL),
}


def code_of(message: str) -> tuple[str, str]:
    """Return the code of a refusal, and the name that it contains; "write-refused" for an unknown text."""
    for code, pattern in PATTERNS:
        if (found := pattern.search(message)) is not None:
            names = found.groupdict()
            return code, names.get("name") or names.get("other") or ""
    return "write-refused", ""


def refused(
    case: Case, message: str, *, what: str, shown_by: str, since: float | str | None = None, controller: str = ""
) -> Iterator[Cause]:
    """Yield the cause of a refused write of the object's controller.

    what: what was refused, "pods cannot be created".
    shown_by: the line of evidence.
    """
    code, name = code_of(message)
    evidence = [shown_by]
    default = _default_limit(case, message) if code == "invalid-template" else None
    if default is not None:
        limit_range, resource, amount = default
        yield case.cause(
            "limit-range",
            f"{what}: the LimitRange {limit_range} sets a default limit of {amount} {resource}, below the "
            "request of the container",
            *evidence,
            since=since,
            controller=controller,
        )
        return
    summary = SUMMARIES[code].format(name=name)
    if (detail := DETAILS.get(code)) is not None and (found := detail.search(message)) is not None:
        summary += f": {found['detail'].strip():.200}"
    if code == "limit-range" and (limit_ranges := case.evidence.list(LIMIT_RANGES, case.namespace)):
        summary += f" (LimitRange {', '.join(name_of(obj) for obj in limit_ranges[:MOST_FOLLOWED])})"
    if code == "quota-exceeded":
        evidence += _use_of_quota(case, name)
        summary = _room(case, name, message) or _excess(message) or summary
    if code == "webhook-unavailable" and (call := _CALL.search(message)) is not None:
        summary += f": {call['why']:.200}"
    yield case.cause(
        code,
        f"{what}: {summary}" + (f": {message:.200}" if code == "write-refused" else ""),
        *evidence,
        since=since,
        controller=controller,
    )


def _default_limit(case: Case, message: str) -> tuple[str, str, str] | None:
    """Return the LimitRange, the resource and the default limit that make a request invalid; None for others."""
    found = _ABOVE_LIMIT.search(message)
    if found is None:
        return None
    for limit_range in case.evidence.list(LIMIT_RANGES, case.namespace):
        for limit in (limit_range.get("spec") or {}).get("limits") or ():
            amount = (limit.get("default") or {}).get(found["resource"])
            if limit.get("type") == "Container" and amount == found["limit"]:
                return name_of(limit_range), found["resource"], amount
    return None


def _excess(message: str) -> str:
    """Return which request is larger than the whole quota, or than what is left of it; "" if nothing is left."""
    found = _QUOTA.search(message)
    if found is None:
        return ""
    requested, used, limited = (_amounts(found[part]) for part in ("requested", "used", "limited"))
    for resource, amount in requested.items():
        limit = limited.get(resource)
        if limit is not None and parse_quantity(amount) > parse_quantity(limit):
            return f"it requests {resource} {amount}, and the ResourceQuota {found['name']} allows {limit} in all"
    for resource, amount in requested.items():
        limit, taken = limited.get(resource), used.get(resource, "0")
        if limit is not None and parse_quantity(taken) < parse_quantity(limit):
            return (
                f"it requests {resource} {amount}, and the ResourceQuota {found['name']} has less left: "
                f"{taken} of {limit} is used"
            )
    return ""


def _room(case: Case, name: str, message: str) -> str:
    """Return that a quota has room again for what it refused; "" if it has not."""
    found, quota = _QUOTA.search(message), case.evidence.get(RESOURCE_QUOTAS, f"{case.namespace}/{name}")
    status = (quota or {}).get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requested = {} if found is None else _amounts(found["requested"])
    if not requested or not hard:
        return ""
    for resource, amount in requested.items():
        if resource in hard:
            free = parse_quantity(hard[resource]) - parse_quantity(used.get(resource, "0"))
            if parse_quantity(amount) > free:
                return ""
    return f"the ResourceQuota {name} refused it and has room again, which is noticed at the next attempt"


def _amounts(text: str) -> dict[str, str]:
    """Return the amounts of a refusal by resource: "pods=1,requests.cpu=2". Amounts that are no quantities are omitted.

    A webhook may refuse an object with any text.
    """
    amounts = {}
    for part in text.split(","):
        resource, _, amount = part.partition("=")
        with contextlib.suppress(ValueError):
            parse_quantity(amount)
            amounts[resource] = amount
    return amounts


def _scopes(quota: Object) -> str:
    """Return which pods a quota counts, in words; "" if it counts all of them."""
    spec = quota.get("spec") or {}
    scopes = list(spec.get("scopes") or ())
    for rule in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        parts = (rule.get("scopeName"), rule.get("operator"), ", ".join(rule.get("values") or ()))
        scopes.append(" ".join(part for part in parts if part))
    return f"; it counts only what has the scope {' and '.join(scopes)}" if scopes else ""


def _use_of_quota(case: Case, name: str) -> list[str]:
    quota = case.evidence.get(RESOURCE_QUOTAS, f"{case.namespace}/{name}")
    if quota is None:
        return []
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    uses = ", ".join(f"{resource} {used.get(resource, '?')} of {hard[resource]}" for resource in sorted(hard))
    return [f"resourcequota {name_of(quota)} uses {uses}{_scopes(quota)}"]
