"""Defaults and validation of the fields that admission policies, their bindings and webhook configurations share.

These are rules, selectors, paramKind and paramRef.

Source: kubernetes pkg/apis/admissionregistration/validation/validation.go, v1/defaults.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.rules.names import dns1035_label, dns_subdomain, path_segment
from kcm.runtime.apiserver.rules.selectors import validate_selector

OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
FAILURE_POLICIES, MATCH_POLICIES, SCOPES = ("Fail", "Ignore"), ("Equivalent", "Exact"), ("*", "Cluster", "Namespaced")


def set_policy_defaults(policy: Object) -> None:
    spec = policy["spec"]
    spec.setdefault("failurePolicy", "Fail")
    set_match_defaults(spec.get("matchConstraints"))


def set_binding_defaults(binding: Object) -> None:
    set_match_defaults(binding["spec"].get("matchResources"))


def has_other_conditions(new: Object, old: Object) -> bool:
    """Report whether an update changes matchConditions or paramKind of a policy."""
    return any(
        (new["spec"].get(part) or None) != (old["spec"].get(part) or None) for part in ("matchConditions", "paramKind")
    )


def set_match_defaults(resources: Object | None) -> None:
    """Set the defaults of a MatchResources, in place."""
    if resources is None:
        return
    resources.setdefault("matchPolicy", "Equivalent")
    resources.setdefault("namespaceSelector", {})
    resources.setdefault("objectSelector", {})
    for field in ("resourceRules", "excludeResourceRules"):
        for rule in resources.get(field) or ():
            rule.setdefault("scope", "*")


def match_resources_errors(resources: Mapping[str, Any] | None, path: str) -> Iterator[FieldError]:
    if resources is None:
        return
    policy = resources.get("matchPolicy")
    if policy is None:
        yield required(f"{path}.matchPolicy")
    elif policy not in MATCH_POLICIES:
        yield not_supported(f"{path}.matchPolicy", policy, MATCH_POLICIES)
    for selector in ("namespaceSelector", "objectSelector"):
        if resources.get(selector) is None:
            yield required(f"{path}.{selector}")
        else:
            yield from validate_selector(resources[selector], f"{path}.{selector}")
    for field in ("resourceRules", "excludeResourceRules"):
        for place, rule in enumerate(resources.get(field) or ()):
            yield from _named_rule_errors(rule, f"{path}.{field}[{place}]")


def mutating_operations_errors(resources: Mapping[str, Any] | None, path: str) -> Iterator[FieldError]:
    """Validate the operations of a mutating policy: DELETE is rejected, as a deleted object cannot be changed."""
    for rule in (resources or {}).get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in MUTATING_OPERATIONS:
                yield not_supported(f"{path}.resourceRules.operations", operation, MUTATING_OPERATIONS)


def _named_rule_errors(rule: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    names = rule.get("resourceNames") or []
    for place, name in enumerate(names):
        for text in path_segment(name):
            yield invalid(f"{path}.resourceNames[{place}]", name, text)
        if name in names[:place]:
            yield duplicate(f"{path}.resourceNames[{place}]", name)
    yield from rule_errors(rule, path)


def rule_errors(rule: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Validate a RuleWithOperations."""
    operations = rule.get("operations") or []
    if not operations:
        yield required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        yield invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations")
    for place, operation in enumerate(operations):
        if operation not in OPERATIONS:
            yield not_supported(f"{path}.operations[{place}]", operation, OPERATIONS)
    groups, versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
    if not groups:
        yield required(f"{path}.apiGroups")
    if len(groups) > 1 and "*" in groups:
        yield invalid(f"{path}.apiGroups", groups, "if '*' is present, must not specify other API groups")
    if not versions:
        yield required(f"{path}.apiVersions")
    if len(versions) > 1 and "*" in versions:
        yield invalid(f"{path}.apiVersions", versions, "if '*' is present, must not specify other API versions")
    for place, version in enumerate(versions):
        if not version:
            yield required(f"{path}.apiVersions[{place}]")
    yield from _resource_errors(rule.get("resources") or [], f"{path}.resources")
    scope = rule.get("scope")
    if scope is not None and scope not in SCOPES:
        yield not_supported(f"{path}.scope", scope, SCOPES)


def _resource_errors(resources: list[str], path: str) -> Iterator[FieldError]:
    if not resources:
        yield required(path)
    all_of: set[str] = set()  # resources with any subresource, and subresources of any resource
    of_all: set[str] = set()
    plain = False
    for place, written in enumerate(resources):
        if not written:
            yield required(f"{path}[{place}]")
            continue
        resource, slash, subresource = written.partition("/")
        if not slash:
            plain = written != "*"
            continue
        if resource in all_of:
            detail = f"if '{resource}/*' is present, must not specify {written}"
            yield invalid(f"{path}[{place}]", written, detail)
        if subresource in of_all:
            detail = f"if '*/{subresource}' is present, must not specify {written}"
            yield invalid(f"{path}[{place}]", written, detail)
        if subresource == "*":
            all_of.add(resource)
        if resource == "*":
            of_all.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and plain:
        yield invalid(path, resources, "if '*' is present, must not specify other resources without subresources")


def param_kind_errors(kind: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    parts = version.split("/")
    if not version:
        yield required(f"{path}.apiVersion")
    elif len(parts) > 2:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    else:
        group, number = (parts[0], parts[1]) if len(parts) == 2 else ("", parts[0])
        if group and (problems := dns_subdomain(group)):
            yield invalid(f"{path}.apiVersion", group, ",".join(problems))
        if not number:
            yield invalid(f"{path}.apiVersion", version, "version must be specified")
        elif problems := dns1035_label(number):
            yield invalid(f"{path}.apiVersion", number, ",".join(problems))
    if not name:
        yield required(f"{path}.kind")
    elif problems := dns1035_label(name.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
        yield invalid(f"{path}.kind", name, detail)


def param_ref_errors(reference: Mapping[str, Any] | None, path: str) -> Iterator[FieldError]:
    if reference is None:
        return
    name, selector = reference.get("name") or "", reference.get("selector")
    both = "name and selector are mutually exclusive"
    if name:
        for text in path_segment(name):
            yield invalid(f"{path}.name", name, text)
        if selector is not None:
            yield forbidden(f"{path}.name", both)
    if selector is not None:
        yield from validate_selector(selector, f"{path}.selector")
        if name:
            yield forbidden(f"{path}.selector", both)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if not action:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in ("Deny", "Allow"):
        yield not_supported(f"{path}.parameterNotFoundAction", action, ("Deny", "Allow"))


def binding_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Validate the fields that bindings of validating and of mutating policies share."""
    policy = spec.get("policyName") or ""
    if not policy:
        yield required("spec.policyName")
    for text in dns_subdomain(policy) if policy else ():
        yield invalid("spec.policyName", policy, text)
    yield from param_ref_errors(spec.get("paramRef"), "spec.paramRef")
    yield from match_resources_errors(spec.get("matchResources"), "spec.matchResources")


def constraints_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Validate failurePolicy, paramKind and matchConstraints, which validating and mutating policies share."""
    failure = spec.get("failurePolicy")
    if failure is None:
        yield required("spec.failurePolicy")
    elif failure not in FAILURE_POLICIES:
        yield not_supported("spec.failurePolicy", failure, FAILURE_POLICIES)
    if spec.get("paramKind") is not None:
        yield from param_kind_errors(spec["paramKind"], "spec.paramKind")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        yield required("spec.matchConstraints")
        return
    yield from match_resources_errors(constraints, "spec.matchConstraints")
    if not constraints.get("resourceRules"):
        yield required("spec.matchConstraints.resourceRules")
