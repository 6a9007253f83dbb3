"""Defaults and validation of mutating and validating webhook configurations.

Source: kubernetes pkg/apis/admissionregistration/v1/defaults.go,
pkg/apis/admissionregistration/validation/validation.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, invalid, not_supported, required
from kcm.runtime.apiserver.kinds.admissionregistration.shared.expressions import match_conditions_errors
from kcm.runtime.apiserver.kinds.admissionregistration.shared.rules import FAILURE_POLICIES, MATCH_POLICIES, rule_errors
from kcm.runtime.apiserver.rules.names import dns_subdomain
from kcm.runtime.apiserver.rules.selectors import validate_selector
from kcm.runtime.apiserver.rules.webhook_clients import REVIEW_VERSIONS, wrong_client, wrong_review_versions

_NO_EFFECTS, _EFFECTS = ("None", "NoneOnDryRun"), ("None", "NoneOnDryRun", "Some", "Unknown")
_REINVOCATIONS = ("IfNeeded", "Never")
_LONGEST = 30  # seconds
_LEAST_SEGMENTS = 3


def set_defaults(configuration: Object) -> None:
    for hook in configuration.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        client = hook.setdefault("clientConfig", {})
        if "service" in client:
            client["service"].setdefault("port", 443)
        hook.setdefault("admissionReviewVersions", None)  # upstream always encodes this field
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")


def set_mutating_defaults(configuration: Object) -> None:
    set_defaults(configuration)
    for hook in configuration.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


def validate_create(configuration: Object) -> list[FieldError]:
    return list(_wrong_hooks(configuration, {}))


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """Validate an update of a webhook configuration. Rules that the old object breaks are skipped."""
    return list(_wrong_hooks(new, old))


def _wrong_hooks(configuration: Object, old: Object) -> Iterator[FieldError]:
    hooks, before = configuration.get("webhooks") or (), old.get("webhooks") or ()
    allowed = _NO_EFFECTS if all(hook.get("sideEffects") in _NO_EFFECTS for hook in before) else _EFFECTS
    known_versions = all(set(REVIEW_VERSIONS) & {*(hook.get("admissionReviewVersions") or ())} for hook in before)
    unique = len({hook.get("name") for hook in before}) == len(before)
    same_conditions = bool(before) and [hook.get("matchConditions") for hook in hooks] == [
        hook.get("matchConditions") for hook in before
    ]
    seen: set[str] = set()
    for i, hook in enumerate(hooks):
        at, name = f"webhooks[{i}]", hook.get("name") or ""
        yield from _wrong_hook(hook, at, allowed)
        if not same_conditions:
            yield from match_conditions_errors(hook.get("matchConditions") or (), f"{at}.matchConditions")
        versions = hook.get("admissionReviewVersions") or ()
        if known_versions or not versions:
            missing = f"must specify one of {', '.join(REVIEW_VERSIONS)}"
            yield from wrong_review_versions(versions, f"{at}.admissionReviewVersions", missing)
        if name and unique and name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)


def _wrong_hook(hook: Object, field: str, effects: tuple[str, ...]) -> Iterator[FieldError]:
    yield from _wrong_name(hook.get("name") or "", f"{field}.name")
    for i, rule in enumerate(hook.get("rules") or ()):
        yield from rule_errors(rule, f"{field}.rules[{i}]")
    choices: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("failurePolicy", FAILURE_POLICIES),
        ("matchPolicy", MATCH_POLICIES),
        ("sideEffects", effects),
        ("reinvocationPolicy", _REINVOCATIONS),
    )
    for name, supported in choices:
        value: Any = hook.get(name)
        if value is not None and value not in supported:
            yield not_supported(f"{field}.{name}", value, supported)
    if hook.get("sideEffects") is None:
        yield required(f"{field}.sideEffects", f"must specify one of {', '.join(effects)}")
    seconds = hook["timeoutSeconds"]
    if not 1 <= seconds <= _LONGEST:
        detail = f"the timeout value must be between 1 and {_LONGEST} seconds"
        yield invalid(f"{field}.timeoutSeconds", seconds, detail)
    for name in ("namespaceSelector", "objectSelector"):
        yield from validate_selector(hook[name], f"{field}.{name}")
    yield from wrong_client(hook["clientConfig"], f"{field}.clientConfig")


def _wrong_name(name: str, field: str) -> Iterator[FieldError]:
    if not name:
        yield required(field)
    elif problems := dns_subdomain(name):
        yield invalid(field, name, ",".join(problems))
    elif name.count(".") < _LEAST_SEGMENTS - 1:
        yield invalid(field, name, "should be a domain with at least three segments separated by dots")
