"""Matching of policies and bindings with requests, and the API version in which expressions see the objects.

Source: apiserver pkg/admission/plugin/policy/matching/matching.go, generic/{policy_matcher,plugin}.go; kubernetes
pkg/kubeapiserver/admission/exclusion/resources.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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


class MatchedVersion(NamedTuple):
    """API version in which expressions see the objects of a request: definition of the resource, and kind."""

    definition: ResourceDefinition
    kind: GroupVersionKind


def is_subject_to_policies(attributes: Attributes) -> bool:
    definition = attributes.definition
    reviewed = definition.group.endswith("ization.k8s.io") or definition.group == "authentication.k8s.io"
    return not is_exempt(attributes) and not (reviewed and definition.plural in _REVIEWS)


def matched(cluster: Cluster, resources: Mapping[str, Any], attributes: Attributes) -> MatchedVersion | None:
    """Return the API version in which a MatchResources matches the request; None if it does not match.

    Raises StatusError if the rules match and a selector cannot be evaluated.
    """
    trouble: StatusError | None = None
    try:
        if not selects_namespace(cluster, resources.get("namespaceSelector") or {}, attributes):
            return None
    except StatusError as err:
        trouble = err
    try:
        if not selects_object(resources.get("objectSelector") or {}, attributes):
            return None
    except StatusError as err:
        trouble = trouble or err
    equivalent = resources.get("matchPolicy") == "Equivalent"
    if (
        _match_rules(cluster, resources.get("excludeResourceRules") or (), attributes, equivalent=equivalent)
        is not None
    ):
        return None
    rules = resources.get("resourceRules") or ()
    found = (
        _match_rules(cluster, rules, attributes, equivalent=equivalent)
        if rules
        else MatchedVersion(attributes.definition, attributes.kind)
    )
    if found is not None and trouble is not None:
        raise trouble
    return found


def _match_rules(
    cluster: Cluster, rules: Sequence[Mapping[str, Any]], attributes: Attributes, *, equivalent: bool
) -> MatchedVersion | None:
    if any(_matches(rule, attributes.definition, attributes) for rule in rules):
        return MatchedVersion(attributes.definition, attributes.kind)
    if not equivalent or not rules:
        return None
    for other in cluster.registry:
        if other.storage != attributes.definition.storage or other is attributes.definition:
            continue
        if attributes.subresource and attributes.subresource not in other.subresources:
            continue
        if any(_matches(rule, other, attributes) for rule in rules):
            kind = GroupVersionKind(other.group, other.version, other.kind) if attributes.is_whole else attributes.kind
            return MatchedVersion(other, kind)
    return None


def _matches(rule: Mapping[str, Any], definition: ResourceDefinition, attributes: Attributes) -> bool:
    names = rule.get("resourceNames")
    return rule_matches(rule, definition, attributes) and (not names or attributes.name in names)
