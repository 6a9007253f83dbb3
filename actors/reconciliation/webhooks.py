"""Webhooks of an author's own resources: functions that validate, mutate and convert objects.

def check(request: AdmissionRequest[Website]) -> None:
    if request.new.spec.replicas > 9:
        raise Denied("too large", fields={"spec.replicas": "must be at most 9"})


WEBSITE = ControllerSpec(
    name="website-controller",
    admission=(validate(WEBSITES, check), mutate(WEBSITES, with_defaults)),
    conversion=(convert(WEBSITES_V1, WEBSITES, upgraded), convert(WEBSITES, WEBSITES_V1, downgraded)),
    ...
)

All declarations are values with plain attributes; actors/engine/webhooks turns them into configurations and responses.
See docs/webhooks.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from kcm.protocols.arguments import check_each, check_function, check_mapping, check_number, check_text, check_type
from kcm.protocols.arguments import one_of as check_one_of
from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from kcm.protocols.selectors import parse_label_selector
from kcm.runtime.tables.tables import Tables

M = TypeVar("M")
N = TypeVar("N")

CREATE, UPDATE, DELETE, CONNECT = OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
FAIL, IGNORE = FAILURE_POLICIES = ("Fail", "Ignore")
NONE, NONE_ON_DRY_RUN = SIDE_EFFECTS = ("None", "NoneOnDryRun")
EQUIVALENT, EXACT = MATCH_POLICIES = ("Equivalent", "Exact")
NEVER, IF_NEEDED = REINVOCATION_POLICIES = ("Never", "IfNeeded")
LONGEST = 30  # seconds: limit of timeoutSeconds in the API
MOST_CONDITIONS = 64  # limit of matchConditions in the API
# Namespaces whose objects must be writable for a broken cluster to recover.
CONTROL_PLANE = ("kube-system", "kube-node-lease")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?){2,}")
_ANNOTATION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
MOST_WARNINGS, LONGEST_WARNING = 64, 4096  # of one response; kube-apiserver truncates further


class UserInfo(Struct, frozen=True, kw_only=True):
    """User who has sent the request, as the API server authenticated it."""

    name: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class AdmissionRequest(Struct, Generic[M], frozen=True, kw_only=True):
    """Request to the API server that a webhook decides about.

    new: the object after the operation; for DELETE the object that is deleted, for CONNECT the options of the
        subresource. An instance of the resource's model, or a map; a map of a subresource other than status. It may be
        changed in place, and a mutating function returns it.
    old: the object before the operation; None for CREATE and CONNECT.
    operation: CREATE, UPDATE, DELETE or CONNECT.
    resource: the resource that the webhook was declared for.
    subresource: such as "status"; "": the object itself.
    namespace: "" for a cluster-scoped object.
    name: "" if the API server generates it.
    uid: number of this request, as in audit logs.
    dry_run: nothing will be stored, so the function must have no side effects.
    user: the user of the request.
    options: CreateOptions, UpdateOptions, DeleteOptions or ConnectOptions of the request.
    tables: what the controller watches and reads, without its writes that the watches have not returned. They may be
        late, so a decision that depends on them is not certain.
    """

    new: M
    old: M | None = None
    operation: str
    resource: Resource[M]
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    dry_run: bool = False
    user: UserInfo = UserInfo()
    options: Mapping[str, Any] = MappingProxyType({})
    tables: Tables | None = None
    warnings: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)

    def warn(self, text: str) -> None:
        """Add a warning for the user, which kubectl shows. Keep it below 120 characters.

        Raises ValueError if there are too many, or if it is too long.
        """
        check_text("a warning", text)
        if len(text) > LONGEST_WARNING or len(self.warnings) >= MOST_WARNINGS:
            raise ValueError(f"a request has at most {MOST_WARNINGS} warnings of {LONGEST_WARNING} characters")
        self.warnings.append(text)

    def annotate(self, key: str, value: str) -> None:
        """Add an annotation to the audit event of the request. The API server puts the webhook's name before the key.

        Raises ValueError for a key that is not a name without a domain.
        """
        check_text("the key of an audit annotation", key, may_be_empty=True)
        if not _ANNOTATION.fullmatch(key) or len(key) > 63:
            raise ValueError(f"the key of an audit annotation is a name without a domain, not {key!r:.80}")
        check_text(f"the audit annotation {key}", value, may_be_empty=True)
        self.annotations[key] = value


class Denied(Exception):
    """Denies a request; raised by the function of a webhook. This is control flow, not an error.

    message: for the user, after 'admission webhook "…" denied the request: '.
    fields: problems by the path of the field ("spec.replicas"). With them the reason is Invalid and the code 422.
    reason, code: of the Status that the user receives.
    """

    def __init__(
        self,
        message: str,
        *,
        fields: Mapping[str, str] = MappingProxyType({}),
        reason: str = "",
        code: int = 0,
    ) -> None:
        check_text("message of Denied", message)
        check_mapping("fields of Denied", fields)
        check_number("code of Denied", code, least=0, whole=True)
        if code and not 400 <= code <= 599:
            raise ValueError(f"code of Denied is from 400 to 599, not {code}")
        super().__init__(message)
        self.message, self.fields = message, dict(fields)
        self.reason = reason or ("Invalid" if fields else "Forbidden")
        self.code = code or (422 if fields else 403)


class AdmissionWebhook(Struct, frozen=True, kw_only=True):
    """Declaration of an admission webhook; validate() and mutate() return it.

    resource: the resource, in the version in which the function receives its objects.
    function: decides about an AdmissionRequest.
    mutating: whether the function may return a changed object.
    name: unique name with at least three labels, "validate.websites.example.com"; also the end of its path.
    operations: of OPERATIONS.
    subresource: "": the object itself; "*": the object and all its subresources.
    labels: selector of the object's labels, as in `kubectl get -l`; "": all objects.
    namespace_labels: selector of the labels of the object's namespace; None: all namespaces for custom resources, and
        all but CONTROL_PLANE and the program's own for built-in ones.
    match_conditions: CEL expressions by name; all must be true for the webhook to be called.
    failure_policy: Fail: the request fails if the webhook cannot be called or its function raises an exception.
    side_effects: None, or NoneOnDryRun if the function has side effects unless `dry_run` is set.
    timeout_seconds: from 1 to 30.
    match_policy: Equivalent: also called for the other versions of the resource, with converted objects.
    reinvocation_policy: IfNeeded: called again if a later webhook has changed the object. For mutating webhooks.
    """

    resource: Resource[Any]
    function: Callable[[Any], Any]
    mutating: bool
    name: str
    operations: tuple[str, ...] = (CREATE, UPDATE)
    subresource: str = ""
    labels: str = ""
    namespace_labels: str | None = None
    match_conditions: Mapping[str, str] = MappingProxyType({})
    failure_policy: str = FAIL
    side_effects: str = NONE
    timeout_seconds: int = 5
    match_policy: str = EQUIVALENT
    reinvocation_policy: str = IF_NEEDED

    @property
    def path(self) -> str:
        """Return the path of the webhook's URL: "/mutate/NAME" or "/validate/NAME"."""
        return f"/{'mutate' if self.mutating else 'validate'}/{self.name}"

    def __post_init__(self) -> None:
        """Check the fields. Raises TypeError and ValueError."""
        check_type("resource of a webhook", self.resource, Resource, "a Resource")
        check_text("name of a webhook", self.name)
        if not _NAME.fullmatch(self.name) or len(self.name) > 253:
            raise ValueError(f"name of a webhook has at least three labels, as check.example.com, not {self.name!r}")
        check_plain_function(f"function of {self.name}", self.function)
        check_each(f"operations of {self.name}", self.operations, _check_operation)
        if not self.operations or len(set(self.operations)) < len(self.operations):
            raise ValueError(f"operations of {self.name} are different ones of {', '.join(OPERATIONS)}")
        if self.mutating and DELETE in self.operations:
            raise ValueError(f"{self.name}: a mutating webhook cannot change an object that is deleted")
        check_text(f"subresource of {self.name}", self.subresource, may_be_empty=True)
        for what, text in (("labels", self.labels), ("namespace_labels", self.namespace_labels or "")):
            check_text(f"{what} of {self.name}", text, may_be_empty=True)
            _check_selector(f"{what} of {self.name}", text)
        check_mapping(f"match_conditions of {self.name}", self.match_conditions)
        for key, expression in self.match_conditions.items():
            check_text(f"name of a match condition of {self.name}", key)
            check_text(f"match condition {key!r} of {self.name}", expression)
        if len(self.match_conditions) > MOST_CONDITIONS:
            raise ValueError(f"{self.name} has more than {MOST_CONDITIONS} match conditions")
        check_one_of(f"failure_policy of {self.name}", self.failure_policy, FAILURE_POLICIES)
        check_one_of(f"side_effects of {self.name}", self.side_effects, SIDE_EFFECTS)
        check_one_of(f"match_policy of {self.name}", self.match_policy, MATCH_POLICIES)
        check_one_of(f"reinvocation_policy of {self.name}", self.reinvocation_policy, REINVOCATION_POLICIES)
        check_number(f"timeout_seconds of {self.name}", self.timeout_seconds, least=1, whole=True)
        if self.timeout_seconds > LONGEST:
            raise ValueError(f"timeout_seconds of {self.name} is at most {LONGEST}, not {self.timeout_seconds}")


def validate(
    resource: Resource[M],
    function: Callable[[AdmissionRequest[M]], None],
    *,
    operations: Iterable[str] = (CREATE, UPDATE),
    name: str = "",
    subresource: str = "",
    labels: str = "",
    namespace_labels: str | None = None,
    match_conditions: Mapping[str, str] = MappingProxyType({}),
    failure_policy: str = FAIL,
    side_effects: str = NONE,
    timeout_seconds: int = 5,
    match_policy: str = EQUIVALENT,
) -> AdmissionWebhook:
    """Declare a validating webhook. The function raises Denied to deny the request.

    name: by default "validate." and the name of the resource. See AdmissionWebhook for the other arguments.
    Raises TypeError or ValueError for invalid arguments.
    """
    return AdmissionWebhook(
        resource=resource,
        function=function,
        mutating=False,
        name=name or _default_name("validate", resource, subresource),
        operations=_as_tuple("operations", operations),
        subresource=subresource,
        labels=labels,
        namespace_labels=namespace_labels,
        match_conditions=match_conditions,
        failure_policy=failure_policy,
        side_effects=side_effects,
        timeout_seconds=timeout_seconds,
        match_policy=match_policy,
        reinvocation_policy=NEVER,
    )


def mutate(
    resource: Resource[M],
    function: Callable[[AdmissionRequest[M]], M | None],
    *,
    operations: Iterable[str] = (CREATE, UPDATE),
    name: str = "",
    subresource: str = "",
    labels: str = "",
    namespace_labels: str | None = None,
    match_conditions: Mapping[str, str] = MappingProxyType({}),
    failure_policy: str = FAIL,
    side_effects: str = NONE,
    timeout_seconds: int = 5,
    match_policy: str = EQUIVALENT,
    reinvocation_policy: str = IF_NEEDED,
) -> AdmissionWebhook:
    """Declare a mutating webhook. The function returns the new object, or None if nothing changes.

    The JSON patch is derived from the difference. The function may be called several times for a request, also with its
    own result, so it must be idempotent. It raises Denied to deny the request.

    name: by default "mutate." and the name of the resource. See AdmissionWebhook for the other arguments.
    Raises TypeError or ValueError for invalid arguments.
    """
    return AdmissionWebhook(
        resource=resource,
        function=function,
        mutating=True,
        name=name or _default_name("mutate", resource, subresource),
        operations=_as_tuple("operations", operations),
        subresource=subresource,
        labels=labels,
        namespace_labels=namespace_labels,
        match_conditions=match_conditions,
        failure_policy=failure_policy,
        side_effects=side_effects,
        timeout_seconds=timeout_seconds,
        match_policy=match_policy,
        reinvocation_policy=reinvocation_policy,
    )


class VersionConversion(Struct, frozen=True):
    """Conversion from one version of a custom resource to another; convert() returns it.

    function: receives an object of the source and returns one of the target. Kind, apiVersion and metadata are copied;
        only labels and annotations may be changed.
    """

    source: Resource[Any]
    target: Resource[Any]
    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        """Check the fields. Raises TypeError and ValueError."""
        check_type("source of a conversion", self.source, Resource, "a Resource")
        check_type("target of a conversion", self.target, Resource, "a Resource")
        source, target = self.source, self.target
        if _without_version(source) != _without_version(target):
            raise ValueError(f"a conversion is between versions of one resource, not from {source.id} to {target.id}")
        if source.version == target.version:
            raise ValueError(f"the conversion of {source.id} has the same version as source and target")
        check_plain_function(f"conversion from {source.id} to {target.id}", self.function)


def convert(source: Resource[M], target: Resource[N], function: Callable[[M], N]) -> VersionConversion:
    """Declare a conversion of a custom resource from one version to another.

    With a hub, each other version needs two conversions, to the hub and from it; all other pairs follow. Without a hub,
    declare each pair. Raises TypeError or ValueError for invalid arguments.
    """
    return VersionConversion(source, target, function)


def conversion_paths(
    conversions: Iterable[VersionConversion],
) -> dict[tuple[str, str], tuple[VersionConversion, ...]]:
    """Return the shortest sequence of conversions for each ordered pair of versions of one resource.

    conversions: of one resource.

    Raises ValueError if a pair of versions is declared twice or has no sequence.
    """
    declared: dict[str, dict[str, VersionConversion]] = {}
    versions: dict[str, None] = {}
    name = ""
    for conversion in conversions:
        name = conversion.source.name
        source, target = conversion.source.version, conversion.target.version
        versions |= {source: None, target: None}
        if declared.setdefault(source, {}).setdefault(target, conversion) is not conversion:
            raise ValueError(f"two conversions of {name} from {source} to {target}")
    found: dict[tuple[str, str], tuple[VersionConversion, ...]] = {}
    for start in versions:
        reached: dict[str, tuple[VersionConversion, ...]] = {start: ()}
        edge = [start]
        while edge:  # breadth first, so that the first sequence is a shortest one
            edge_before, edge = edge, []
            for version in edge_before:
                for target, conversion in declared.get(version, {}).items():
                    if target not in reached:
                        reached[target] = (*reached[version], conversion)
                        edge.append(target)
        for end in versions:
            if end not in reached:
                raise ValueError(f"no conversion of {name} from {start} to {end}")
            if end != start:
                found[start, end] = reached[end]
    return found


def by_resource(conversions: Iterable[VersionConversion]) -> dict[str, tuple[VersionConversion, ...]]:
    """Return the conversions by the name of the resource, which is the name of its CustomResourceDefinition."""
    grouped: dict[str, tuple[VersionConversion, ...]] = {}
    for conversion in conversions:
        name = conversion.source.name
        grouped[name] = (*grouped.get(name, ()), conversion)
    return grouped


def check_webhooks(
    controller: str, admission: tuple[AdmissionWebhook, ...], conversion: tuple[VersionConversion, ...]
) -> None:
    """Check the webhooks of one controller. Raises TypeError, and ValueError for names that are not unique."""
    check_each(f"admission of {controller}", admission, _check_admission)
    check_each(f"conversion of {controller}", conversion, _check_conversion)
    names = [webhook.name for webhook in admission]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two webhooks of {controller} are named {twice[0]}: give one of them a name=")
    for group in by_resource(conversion).values():
        conversion_paths(group)


def is_built_in(resource: Resource[Any]) -> bool:
    """Report whether a resource belongs to Kubernetes itself, whose groups have no domain or end with .k8s.io."""
    return "." not in resource.group or resource.group.endswith(".k8s.io")


def check_plain_function(what: str, given: object) -> None:
    """Check for a function that returns its result at once. Raises TypeError."""
    check_function(what, given)
    if inspect.iscoroutinefunction(given) or inspect.isgeneratorfunction(given) or inspect.isasyncgenfunction(given):
        raise TypeError(f"{what} is a plain function: not async, and without yield")


def _without_version(resource: Resource[Any]) -> tuple[str, str, str, bool]:
    return resource.group, resource.plural, resource.kind, resource.namespaced


def _default_name(verb: str, resource: object, subresource: str) -> str:
    if not isinstance(resource, Resource):
        raise TypeError(f"{verb} is of a Resource, not of {resource!r:.80}")
    parts = [verb, subresource if subresource != "*" else "", resource.plural, resource.group or "core"]
    return ".".join(filter(None, parts))


def _as_tuple(what: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{what}: expected a tuple, got {given!r:.80}")
    return tuple(given)


def _check_operation(what: str, given: Any) -> None:
    check_one_of(what, given, OPERATIONS)


def _check_admission(what: str, given: Any) -> None:
    check_type(what, given, AdmissionWebhook, "validate(…) or mutate(…)")


def _check_conversion(what: str, given: Any) -> None:
    check_type(what, given, VersionConversion, "convert(…)")


def _check_selector(what: str, text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except ValueError as err:
        raise ValueError(f"{what}: {err}") from err
    if any(requirement.operator in "<>" for requirement in selector.requirements):
        raise ValueError(f"{what}: a webhook has no selector with < and >")


__all__ = [
    "AdmissionRequest",
    "AdmissionWebhook",
    "Denied",
    "Object",
    "UserInfo",
    "VersionConversion",
    "convert",
    "mutate",
    "validate",
]
