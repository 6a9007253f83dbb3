"""Policy rules of RBAC: evaluates rules, and compares the permissions of sets of rules.

Source: kubernetes pkg/apis/rbac/v1/evaluation_helpers.go, plugin/pkg/auth/authorizer/rbac/rbac.go (RuleAllows),
pkg/registry/rbac/validation/policy_compact.go, component-helpers auth/rbac/validation/policy_comparator.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.registry.request_info import RequestInfo

ALL = "*"
_FIELDS = {
    "verbs": "verbs",
    "groups": "apiGroups",
    "resources": "resources",
    "names": "resourceNames",
    "urls": "nonResourceURLs",
}


class Rule(NamedTuple):
    """A PolicyRule. "*" matches any verb, group, resource or URL."""

    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Format the rule as in the error for an escalation of privileges."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        shown = (f"{name}:{shown_list(values)}" for name, values in parts if values)
        return f"{{{', '.join(shown)}}}"

    def as_object(self) -> Object:
        values = ((field, getattr(self, part)) for part, field in _FIELDS.items())
        return {field: list(value) for field, value in values if value}


FULL_AUTHORITY = (Rule((ALL,), (ALL,), (ALL,)), Rule((ALL,), urls=(ALL,)))


def shown_list(values: Iterable[str]) -> str:
    """Format values as Go's %q formats a []string."""
    return f"[{' '.join(map(quoted, values))}]"


def rules_in(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    return tuple(
        Rule(*(tuple(rule.get(field) or ()) for field in _FIELDS.values())) for rule in role.get("rules") or ()
    )


def allows(rule: Rule, info: RequestInfo) -> bool:
    if not info.is_resource_request:
        return _has(rule.verbs, info.verb) and any(_url_covers(url, info.path) for url in rule.urls)
    return allows_any_name(rule, info) and (not rule.names or info.name in rule.names)


def allows_any_name(rule: Rule, info: RequestInfo) -> bool:
    """Report whether the rule allows the request, ignoring the rule's resourceNames."""
    resource, subresource = info.resource, info.subresource
    return (
        _has(rule.verbs, info.verb)
        and _has(rule.groups, info.group)
        and (
            ALL in rule.resources
            or (f"{resource}/{subresource}" if subresource else resource) in rule.resources
            or (bool(subresource) and f"*/{subresource}" in rule.resources)
        )
    )


def _has(values: tuple[str, ...], value: str) -> bool:
    return value in values or ALL in values


def _url_covers(owned: str, asked: str) -> bool:
    return owned == asked or (owned.endswith(ALL) and asked.startswith(owned.rstrip(ALL)))


def missing(owned: Sequence[Rule], given: Iterable[Rule]) -> list[Rule]:
    """Return what `owned` does not cover, as rules with a single verb, resource, name or URL each.

    owned: the rules of a user
    given: the rules that the user wants to grant
    """
    return [atom for rule in given for atom in _atoms(rule) if not any(_covers(has, atom) for has in owned)]


def _atoms(rule: Rule) -> Iterator[Rule]:
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                atom = Rule((verb,), (group,), (resource,))
                yield from (atom._replace(names=(name,)) for name in rule.names) if rule.names else (atom,)
    for url in rule.urls:
        for verb in rule.verbs:
            yield Rule((verb,), urls=(url,))


def _covers(owned: Rule, atom: Rule) -> bool:
    return (
        _has_all(owned.verbs, atom.verbs)
        and _has_all(owned.groups, atom.groups)
        and (ALL in owned.resources or all(_has_resource(owned.resources, resource) for resource in atom.resources))
        and (not owned.names or (bool(atom.names) and set(atom.names) <= set(owned.names)))
        and all(any(_url_covers(has, url) for has in owned.urls) for url in atom.urls)
    )


def _has_all(owned: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return ALL in owned or all(value in owned for value in wanted)


def _has_resource(owned: tuple[str, ...], resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    return resource in owned or (bool(slash) and f"*/{subresource}" in owned)


def compact(rules: Iterable[Rule]) -> list[Rule]:
    """Merge rules that have one group, one resource and at most one name, and differ only in their verbs."""
    others: list[Rule] = []
    simple: dict[tuple[tuple[str, ...], ...], Rule] = {}
    for rule in rules:
        if rule.urls or len(rule.names) > 1 or len(rule.groups) != 1 or len(rule.resources) != 1:
            others.append(rule)
            continue
        key = (rule.groups, rule.resources, rule.names)
        found = simple.get(key)
        simple[key] = rule if found is None else found._replace(verbs=found.verbs + rule.verbs)
    return [*others, *simple.values()]
