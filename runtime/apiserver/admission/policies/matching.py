"""Matching of policies and bindings with requests, and the API version in which expressions see the objects.

Source: apiserver pkg/admission/plugin/policy/matching/matching.go, generic/{policy_matcher,plugin}.go; kubernetes
pkg/kubeapiserver/admission/exclusion/resources.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.attributes import Attributes
from kcm.runtime.apiserver.admission.webhooks.matching import is_exempt, rule_matches, selects_namespace, selects_object
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import GroupVersionKind

# Exempt from policies: a policy that refuses these could lock out every user.
_REVIEWS = frozenset(
    {
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }
)


class Matched(NamedTuple):
    """API version in which expressions see the objects of a request: definition of the resource, and kind."""

    definition: ResourceDefinition
    kind: GroupVersionKind


def is_judged(asked: Attributes) -> bool:
    definition = asked.definition
    reviewed = definition.group.endswith("ization.k8s.io") or definition.group == "authentication.k8s.io"
    return not is_exempt(asked) and not (reviewed and definition.plural in _REVIEWS)


def matched(cluster: Cluster, resources: Mapping[str, Any], asked: Attributes) -> Matched | None:
    """Return the API version in which a MatchResources matches the request; None if it does not match.

    Raises StatusError if the rules match and a selector cannot be evaluated.
    """
    trouble: StatusError | None = None
    try:
        if not selects_namespace(cluster, resources.get("namespaceSelector") or {}, asked):
            return None
    except StatusError as err:
        trouble = err
    try:
        if not selects_object(resources.get("objectSelector") or {}, asked):
            return None
    except StatusError as err:
        trouble = trouble or err
    equivalent = resources.get("matchPolicy") == "Equivalent"
    if _by_rules(cluster, resources.get("excludeResourceRules") or (), asked, equivalent=equivalent) is not None:
        return None
    rules = resources.get("resourceRules") or ()
    found = _by_rules(cluster, rules, asked, equivalent=equivalent) if rules else Matched(asked.definition, asked.kind)
    if found is not None and trouble is not None:
        raise trouble
    return found


def _by_rules(
    cluster: Cluster, rules: Sequence[Mapping[str, Any]], asked: Attributes, *, equivalent: bool
) -> Matched | None:
    if any(_matches(rule, asked.definition, asked) for rule in rules):
        return Matched(asked.definition, asked.kind)
    if not equivalent or not rules:
        return None
    for other in cluster.registry:
        if other.storage != asked.definition.storage or other is asked.definition:
            continue
        if asked.subresource and asked.subresource not in other.subresources:
            continue
        if any(_matches(rule, other, asked) for rule in rules):
            kind = GroupVersionKind(other.group, other.version, other.kind) if asked.is_whole else asked.kind
            return Matched(other, kind)
    return None


def _matches(rule: Mapping[str, Any], definition: ResourceDefinition, asked: Attributes) -> bool:
    names = rule.get("resourceNames")
    return rule_matches(rule, definition, asked) and (not names or asked.name in names)


def shown_back(asked: Attributes, definition: ResourceDefinition, obj: Object) -> Object:
    if definition is asked.definition or not asked.is_whole:
        return obj
    to, back = definition.to_storage, asked.definition.from_storage
    stored = obj if to is None else to(obj)
    return stored if back is None else back(stored)
