"""Authorization checks in expressions.

Source: k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kcm.protocols.names import dns_label, dns_subdomain
from kcm.runtime.cel.declarations import function, library
from kcm.runtime.cel.errors import EvaluationError
from kcm.runtime.cel.values import Opaque

PREFIX = "kubernetes.authorization."


class CheckAttributes(Struct, frozen=True, kw_only=True):
    """One authorization check: of a resource in a group, or of `path` if that is set.

    account: namespace and name of the service account that is checked; None checks the user of the request
    """

    verb: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    account: tuple[str, str] | None = None


class DecisionValue(Struct, Opaque, frozen=True):
    allowed: bool
    reason: str = ""
    error: str | None = None
    type_name = PREFIX + "Decision"


Ask = Callable[[CheckAttributes], DecisionValue]


class AuthorizerValue(Struct, Opaque, frozen=True):
    ask: Ask
    account: tuple[str, str] | None = None
    type_name = PREFIX + "Authorizer"


class PathCheck(Struct, Opaque, frozen=True):
    ask: Ask
    attributes: CheckAttributes
    type_name = PREFIX + "PathCheck"


class GroupCheck(Struct, Opaque, frozen=True):
    ask: Ask
    attributes: CheckAttributes
    type_name = PREFIX + "GroupCheck"


class ResourceCheck(Struct, Opaque, frozen=True):
    ask: Ask
    attributes: CheckAttributes
    type_name = PREFIX + "ResourceCheck"


def _path(authorizer: AuthorizerValue, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer.ask, CheckAttributes(path=path, account=authorizer.account))


def _group(authorizer: AuthorizerValue, group: str) -> GroupCheck:
    return GroupCheck(authorizer.ask, CheckAttributes(group=group, account=authorizer.account))


def _account(authorizer: AuthorizerValue, namespace: str, name: str) -> AuthorizerValue:
    if dns_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if dns_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return AuthorizerValue(authorizer.ask, (namespace, name))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.ask, replace(check.attributes, resource=resource))


def _with(field: str) -> Callable[[ResourceCheck, str], ResourceCheck]:
    def narrowed(check: ResourceCheck, value: str) -> ResourceCheck:
        changed: dict[str, Any] = {field: value}
        return ResourceCheck(check.ask, replace(check.attributes, **changed))

    return narrowed


def _check(check: PathCheck | ResourceCheck, verb: str) -> DecisionValue:
    return check.ask(replace(check.attributes, verb=verb))


_A, _P, _G, _R, _D = (PREFIX + each for each in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision"))
AUTHORIZATION = library(
    function("path", ("authorizer_path", f".{_A},string->{_P}", _path)),
    function("group", ("authorizer_group", f".{_A},string->{_G}", _group)),
    function("serviceAccount", ("authorizer_serviceaccount", f".{_A},string,string->{_A}", _account)),
    function("resource", ("groupcheck_resource", f".{_G},string->{_R}", _resource)),
    function("subresource", ("resourcecheck_subresource", f".{_R},string->{_R}", _with("subresource"))),
    function("namespace", ("resourcecheck_namespace", f".{_R},string->{_R}", _with("namespace"))),
    function("name", ("resourcecheck_name", f".{_R},string->{_R}", _with("name"))),
    function("fieldSelector", ("authorizer_fieldselector", f".{_R},string->{_R}", _with("field_selector"))),
    function("labelSelector", ("authorizer_labelselector", f".{_R},string->{_R}", _with("label_selector"))),
    function(
        "check",
        ("pathcheck_check", f".{_P},string->{_D}", _check),
        ("resourcecheck_check", f".{_R},string->{_D}", _check),
    ),
    function("errored", ("decision_errored", f".{_D}->bool", lambda decision: decision.error is not None)),
    function("error", ("decision_error", f".{_D}->string", lambda decision: decision.error or "")),
    function("allowed", ("decision_allowed", f".{_D}->bool", lambda decision: decision.allowed)),
    function("reason", ("decision_reason", f".{_D}->string", lambda decision: decision.reason)),
)
