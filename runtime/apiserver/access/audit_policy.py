"""The audit policy: the level and the stages at which requests are recorded.

Source: apiserver pkg/audit/policy/{checker,reader}.go, pkg/apis/audit/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import User

NONE, METADATA, REQUEST, REQUEST_RESPONSE = LEVELS = ("None", "Metadata", "Request", "RequestResponse")
RECEIVED, STARTED, COMPLETE, PANIC = STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")


class PolicyError(Exception):
    """Invalid audit policy; the text is the reason."""


class Extent(NamedTuple):
    """Level at which a request is recorded, the stages that are omitted, and whether managedFields are removed."""

    level: str
    omitted: frozenset[str] = frozenset()
    without_managed_fields: bool = False


class _Rule(NamedTuple):
    """Parsed PolicyRule, in which empty fields match everything.

    resources: tuples of group, resources, and names
    """

    extent: Extent
    users: frozenset[str]
    groups: frozenset[str]
    verbs: frozenset[str]
    resources: tuple[tuple[str, tuple[str, ...], frozenset[str]], ...]
    namespaces: frozenset[str]
    urls: tuple[str, ...]


class AuditPolicy:
    def __init__(self, policy: Any) -> None:
        """Parse an audit.k8s.io/v1 Policy. Raises PolicyError."""
        _check(policy)
        omitted = frozenset(policy.get("omitStages") or ())
        bare = bool(policy.get("omitManagedFields"))
        self._rules = tuple(_rule(rule, omitted, bare=bare) for rule in policy["rules"])
        self._otherwise = Extent(NONE, omitted, bare)

    def extent(self, user: User | None, info: RequestInfo) -> Extent:
        """Return the level and the stages at which a request is recorded.

        user: None if authentication failed
        """
        return next((rule.extent for rule in self._rules if _matches(rule, user, info)), self._otherwise)


def _rule(rule: Mapping[str, Any], omitted: frozenset[str], *, bare: bool) -> _Rule:
    own = rule.get("omitManagedFields")
    extent = Extent(rule["level"], omitted | frozenset(rule.get("omitStages") or ()), bare if own is None else own)
    resources = tuple(
        (entry.get("group") or "", tuple(entry.get("resources") or ()), frozenset(entry.get("resourceNames") or ()))
        for entry in rule.get("resources") or ()
    )
    users, groups, verbs, namespaces = (
        frozenset(rule.get(field) or ()) for field in ("users", "userGroups", "verbs", "namespaces")
    )
    return _Rule(extent, users, groups, verbs, resources, namespaces, tuple(rule.get("nonResourceURLs") or ()))


def _matches(rule: _Rule, user: User | None, info: RequestInfo) -> bool:
    if rule.users and (user is None or user.name not in rule.users):
        return False
    if rule.groups and (user is None or rule.groups.isdisjoint(user.groups)):
        return False
    if rule.verbs and info.verb not in rule.verbs:
        return False
    if rule.namespaces or rule.resources:
        return info.is_resource_request and _matches_resource(rule, info)
    if rule.urls:
        return not info.is_resource_request and any(_matches_path(url, info.path) for url in rule.urls)
    return True


def _matches_resource(rule: _Rule, info: RequestInfo) -> bool:
    if rule.namespaces and info.namespace not in rule.namespaces:
        return False
    if not rule.resources:
        return True
    wanted = {"*", f"{info.resource}/*", info.resource}
    if info.subresource:
        wanted = {"*", f"{info.resource}/*", f"{info.resource}/{info.subresource}", f"*/{info.subresource}"}
    return any(
        group in (info.group, "*")
        and (not resources or ((not names or info.name in names) and not wanted.isdisjoint(resources)))
        for group, resources, names in rule.resources
    )


def _matches_path(url: str, path: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


def _check(policy: Any) -> None:
    if not isinstance(policy, dict) or (policy.get("apiVersion"), policy.get("kind")) != ("audit.k8s.io/v1", "Policy"):
        raise PolicyError("must be a Policy of audit.k8s.io/v1")
    rules = policy.get("rules") or ()
    if not rules:
        raise PolicyError("loaded illegal policy with 0 rules")
    wrong = list(_wrong_stages("omitStages", policy.get("omitStages") or ()))
    for i, rule in enumerate(rules):
        wrong += _wrong(f"rules[{i}]", rule)
    if wrong:
        raise PolicyError("; ".join(wrong))


def _wrong(where: str, rule: Any) -> Iterator[str]:
    if not isinstance(rule, dict):
        yield f"{where}: must be a map"
        return
    if rule.get("level") not in LEVELS:
        yield f"{where}.level: {rule.get('level') or ''!r} is not one of {', '.join(LEVELS)}"
    yield from _wrong_stages(f"{where}.omitStages", rule.get("omitStages") or ())
    urls = rule.get("nonResourceURLs") or ()
    if urls and (rule.get("resources") or rule.get("namespaces")):
        yield f"{where}.nonResourceURLs: rules cannot apply to both regular resources and non-resource URLs"
    for url in urls:
        if url != "*" and (not url.startswith("/") or "*" in url[:-1]):
            yield f"{where}.nonResourceURLs: {url!r} does not begin with '/', or has a '*' before its end"
    for entry in rule.get("resources") or ():
        if (entry.get("resourceNames") or ()) and not entry.get("resources"):
            yield f"{where}.resources.resourceNames: using resourceNames requires at least one resource"


def _wrong_stages(where: str, stages: Sequence[str]) -> Iterator[str]:
    for stage in stages:
        if stage not in STAGES:
            yield f"{where}: {stage!r} is not one of {', '.join(STAGES)}"
