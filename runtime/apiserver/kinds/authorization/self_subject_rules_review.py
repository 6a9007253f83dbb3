"""SelfSubjectRulesReviews (authorization.k8s.io/v1): the permissions of the user of the request in a namespace.

`kubectl auth can-i --list` sends them.

Source: kubernetes pkg/registry/authorization/selfsubjectrulesreview/rest.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.policy_rules import Rule
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.registry.users import AccessControl, User


def review(review: Object, user: User, access: AccessControl) -> list[FieldError]:
    """Set the status to the user's rules in spec.namespace, and empty metadata and spec, as upstream does.

    Raises StatusError (400) if spec.namespace is empty.
    """
    namespace = (review.get("spec") or {}).get("namespace")
    if not namespace:
        raise status_errors.bad_request("no namespace on request")
    found = access.resolver.rules_for(user, namespace)
    review["metadata"], review["spec"] = {}, {}
    status = review["status"] = {
        "resourceRules": [_rule_for_list(rule, "resources") for rule in found.rules if rule.resources],
        "nonResourceRules": [_rule_for_list(rule, "urls") for rule in found.rules if rule.urls],
        "incomplete": found.incomplete,
    }
    if found.error:
        status["evaluationError"] = found.error
    return []


def _rule_for_list(rule: Rule, what: str) -> Object:
    """Return the part of a rule that one list of the status shows.

    A rule with both resources and URLs appears in both lists.

    what: "resources" or "urls"
    """
    if what == "urls":
        return Rule(rule.verbs, urls=rule.urls).as_object()
    return rule._replace(urls=()).as_object()


RESOURCE = ResourceDefinition(
    group="authorization.k8s.io",
    version="v1",
    plural="selfsubjectrulesreviews",
    kind="SelfSubjectRulesReview",
    namespaced=False,
    verbs=("create",),
    strategy=Strategy(review=review),
)
