"""FlowSchemas (flowcontrol.apiserver.k8s.io/v1): defaults, validation and table columns.

Source: kubernetes pkg/registry/flowcontrol/flowschema/strategy.go, pkg/printers/internalversion/printers.go
(printFlowSchema) (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import NONE, age_cell, condition, items, name_cell, part
from kcm.runtime.apiserver.rules.conditions import validate_condition_types
from kcm.runtime.apiserver.rules.names import dns_label, dns_subdomain

_PRECEDENCE, _HIGHEST = 1000, 10_000
_EXEMPT = "exempt"
_DISTINGUISHERS = ("ByNamespace", "ByUser")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}

Part = Mapping[str, Any]


def set_defaults(schema: Object) -> None:
    schema["spec"]["matchingPrecedence"] = schema["spec"].get("matchingPrecedence") or _PRECEDENCE
    for rule in items(schema["spec"], "rules"):
        for resource_rule in items(rule, "resourceRules"):
            resource_rule["namespaces"] = resource_rule.get("namespaces") or None
    if schema["spec"].get("rules") == []:
        del schema["spec"]["rules"]


def validate(schema: Object) -> list[FieldError]:
    return list(_wrong_spec(schema["spec"], str(schema["metadata"].get("name") or "")))


def _wrong_spec(spec: Part, name: str) -> Iterator[FieldError]:
    precedence, at = spec["matchingPrecedence"], "spec.matchingPrecedence"
    if precedence <= 0:
        yield invalid(at, precedence, "must be a positive value")
    if precedence > _HIGHEST:
        yield invalid(at, precedence, f"must not be greater than {_HIGHEST}")
    if precedence == 1 and name != _EXEMPT:
        yield invalid(at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = part(spec, "distinguisherMethod").get("type")
    if method is not None and method not in _DISTINGUISHERS:
        yield not_supported("spec.distinguisherMethod.type", {"Type": method}, _DISTINGUISHERS)
    level = part(spec, "priorityLevelConfiguration").get("name") or ""
    if level:
        for text in dns_subdomain(level):
            yield invalid("spec.priorityLevelConfiguration.name", level, text)
    else:
        yield required("spec.priorityLevelConfiguration.name", "must reference a priority level")
    for i, rule in enumerate(items(spec, "rules")):
        yield from _wrong_rule(rule, f"spec.rules[{i}]")


def _wrong_rule(rule: Part, field: str) -> Iterator[FieldError]:
    if not rule.get("subjects"):
        yield required(f"{field}.subjects", "subjects must contain at least one value")
    for i, subject in enumerate(items(rule, "subjects")):
        yield from _wrong_subject(subject, f"{field}.subjects[{i}]")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield required(field, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for i, resource_rule in enumerate(items(rule, "resourceRules")):
        yield from _wrong_resource_rule(resource_rule, f"{field}.resourceRules[{i}]")
    for i, path_rule in enumerate(items(rule, "nonResourceRules")):
        at = f"{field}.nonResourceRules[{i}]"
        yield from _wrong_verbs(path_rule, at)
        yield from _wrong_paths(path_rule.get("nonResourceURLs") or [], f"{at}.nonResourceURLs")


def _wrong_subject(subject: Part, field: str) -> Iterator[FieldError]:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        yield not_supported(f"{field}.kind", kind, sorted(_SUBJECTS))
        return
    own = subject.get(_SUBJECTS[kind])
    if own is None:
        yield required(f"{field}.{_SUBJECTS[kind]}", f"{_SUBJECTS[kind]} is required when subject kind is '{kind}'")
    elif kind == "ServiceAccount":
        yield from _wrong_account(own, f"{field}.serviceAccount")
    elif not own.get("name"):
        yield required(f"{field}.{_SUBJECTS[kind]}.name")
    for other, name in _SUBJECTS.items():
        if other != kind and subject.get(name) is not None:
            yield forbidden(f"{field}.{name}", f"{name} is forbidden when subject kind is not '{other}'")


def _wrong_account(account: Part, field: str) -> Iterator[FieldError]:
    name, namespace = account.get("name") or "", account.get("namespace") or ""
    if not name:
        yield required(f"{field}.name")
    elif name != "*":
        for text in dns_subdomain(name):
            yield invalid(f"{field}.name", name, text)
    if not namespace:
        yield required(f"{field}.namespace", "must specify namespace for service account")
    for text in dns_label(namespace) if namespace else ():
        yield invalid(f"{field}.namespace", namespace, text)


def _wrong_verbs(rule: Part, field: str) -> Iterator[FieldError]:
    verbs = rule.get("verbs") or []
    if not verbs:
        yield required(f"{field}.verbs", "verbs must contain at least one value")
    elif "*" in verbs and len(verbs) > 1:
        yield invalid(f"{field}.verbs", verbs, "if '*' is present, must not specify other verbs")
    elif "*" not in verbs and not _VERBS.issuperset(verbs):
        yield not_supported(f"{field}.verbs", verbs, sorted(_VERBS))


_VERBS = frozenset({"get", "list", "create", "update", "delete", "deletecollection", "patch", "watch", "proxy", "head"})


def _wrong_resource_rule(rule: Part, field: str) -> Iterator[FieldError]:
    yield from _wrong_verbs(rule, field)
    for name, words, what in (("apiGroups", "api groups", "api group"), ("resources", "resources", "resource")):
        given = rule.get(name) or []
        if not given:
            yield required(f"{field}.{name}", f"resource rules must supply at least one {what}")
        elif "*" in given and len(given) > 1:
            yield invalid(f"{field}.{name}", given, f"if '*' is present, must not specify other {words}")
    namespaces, at = rule.get("namespaces") or [], f"{field}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        yield required(at, "resource rules that are not cluster scoped must supply at least one namespace")
    elif "*" in namespaces and len(namespaces) > 1:
        yield invalid(at, namespaces, "if '*' is present, must not specify other namespaces")
    else:
        for i, namespace in enumerate(namespaces):
            for text in dns_label(namespace) if namespace != "*" else ():
                yield invalid(f"{at}[{i}]", namespace, text)


def _wrong_paths(paths: list[str], field: str) -> Iterator[FieldError]:
    if not paths:
        yield required(field, "nonResourceURLs must contain at least one value")
    elif "*" in paths and len(paths) > 1:
        detail = "if '*' is present, must not specify other non-resource URLs"
        yield invalid(field, paths, detail)
    elif "*" not in paths:
        for i, path in enumerate(paths):
            yield from _wrong_path(path, f"{field}[{i}]")


def _wrong_path(path: str, field: str) -> Iterator[FieldError]:
    if not path:
        yield invalid(field, path, "must not be empty")
    elif path == "/":
        return
    elif not path.startswith("/"):
        yield invalid(field, path, "must start with slash")
    elif " " in path:
        yield invalid(field, path, "must not contain white-space")
    elif "//" in path:
        yield invalid(field, path, "must not contain double slash")
    elif "*" in path.removesuffix("/*"):
        yield invalid(field, path, "wildcard can only do suffix matching")


def validate_status_update(new: Object, _old: Object) -> list[FieldError]:
    return validate_condition_types(part(new, "status"))


def cells(schema: Object, now: float) -> list[Any]:
    spec = part(schema, "spec")
    dangling = condition(part(schema, "status"), "Dangling")
    return [
        name_cell(schema),
        part(spec, "priorityLevelConfiguration").get("name") or "",
        spec.get("matchingPrecedence") or 0,
        part(spec, "distinguisherMethod").get("type") or NONE,
        age_cell(schema, now),
        "?" if dangling is None else dangling.get("status") or "",
    ]


RESOURCE = ResourceDefinition(
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    plural="flowschemas",
    kind="FlowSchema",
    namespaced=False,
    subresources=("status",),
    strategy=Strategy(
        set_defaults=set_defaults,
        validate=validate,
        validate_status_update=validate_status_update,
        validate_name=dns_subdomain,
        has_generation=True,
        has_status=True,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("PriorityLevel"),
            Column("MatchingPrecedence"),
            Column("DistinguisherMethod"),
            AGE,
            Column("MissingPL"),
        ),
        cells=cells,
    ),
)
