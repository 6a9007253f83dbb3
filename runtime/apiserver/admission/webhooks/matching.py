"""Matching of webhooks with requests, and the API version of the objects to send.

Source: apiserver pkg/admission/plugin/webhook/generic/webhook.go (ShouldCallHook), predicates/{rules,namespace,object}
(v1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from kcm.protocols.objects import labels_of
from kcm.protocols.selectors import label_selector_of
from kcm.runtime.apiserver.admission.attributes import DELETE, NAMESPACES, Attributes
from kcm.runtime.apiserver.admission.webhooks.configured import Webhook
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import GroupVersionKind

# Exempt from webhooks: a webhook that refuses changes of these could no longer be removed.
_EXEMPT = {
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


class WebhookInvocation(NamedTuple):
    """Webhook to call, and the API version of the objects to send."""

    webhook: Webhook
    definition: ResourceDefinition  # of the resource in that version
    kind: GroupVersionKind  # of the objects: the resource's, or a subresource's (Binding)


def is_exempt(attributes: Attributes) -> bool:
    return attributes.kind.group == "admissionregistration.k8s.io" and attributes.kind.kind in _EXEMPT


def invocation(cluster: Cluster, webhook: Webhook, attributes: Attributes) -> WebhookInvocation | None:
    """Return the invocation of a webhook whose rules and selectors match the request; None if they do not match.

    Raises StatusError if the rules match and a selector cannot be evaluated.
    """
    trouble: StatusError | None = None
    try:
        if not selects_namespace(cluster, webhook.namespace_selector, attributes):
            return None
    except StatusError as err:
        trouble = err
    try:
        if not selects_object(webhook.object_selector, attributes):
            return None
    except StatusError as err:
        trouble = trouble or err
    found = _match_rules(cluster, webhook, attributes)
    if found is not None and trouble is not None:
        raise trouble
    return found


def rule_matches(rule: Mapping[str, Any], definition: ResourceDefinition, attributes: Attributes) -> bool:
    """Report whether a rule (RuleWithOperations) matches a request.

    definition: the requested resource, or the same resource in another API version (matchPolicy Equivalent)
    """
    return (
        _scope_matches(rule.get("scope") or "*", definition, attributes)
        and _among(attributes.operation, rule.get("operations") or ())
        and _among(definition.group, rule.get("apiGroups") or ())
        and _among(definition.version, rule.get("apiVersions") or ())
        and any(
            _resource_matches(resource, definition.plural, attributes.subresource)
            for resource in rule.get("resources") or ()
        )
    )


def _match_rules(cluster: Cluster, webhook: Webhook, attributes: Attributes) -> WebhookInvocation | None:
    if any(rule_matches(rule, attributes.definition, attributes) for rule in webhook.rules):
        return WebhookInvocation(webhook, attributes.definition, attributes.kind)
    if webhook.matches_equivalent:
        others = [
            definition
            for definition in cluster.registry
            if definition.storage == attributes.definition.storage
            and definition is not attributes.definition
            and (not attributes.subresource or attributes.subresource in definition.subresources)
        ]
        for rule in webhook.rules if others else ():
            for other in others:
                if rule_matches(rule, other, attributes):
                    kind = (
                        GroupVersionKind(other.group, other.version, other.kind)
                        if attributes.is_whole
                        else attributes.kind
                    )
                    return WebhookInvocation(webhook, other, kind)
    return None


def _among(item: str, items: Collection[str]) -> bool:
    return "*" in items or item in items


def _scope_matches(scope: str, definition: ResourceDefinition, attributes: Attributes) -> bool:
    """Report whether a rule's scope matches. A Namespace is cluster-scoped, though its attributes have a namespace."""
    namespaced = definition.storage != NAMESPACES and bool(attributes.namespace)
    return scope == "*" or namespaced == (scope == "Namespaced")


def _resource_matches(wanted: str, plural: str, subresource: str) -> bool:
    resource, _, sub = wanted.partition("/")
    return resource in ("*", plural) and sub in ("*", subresource)


def selects_namespace(cluster: Cluster, selector: Mapping[str, Any], attributes: Attributes) -> bool:
    """Report whether a selector matches the labels of the object's namespace, or of the Namespace itself.

    Raises StatusError: 404 if the namespace does not exist, 500 if the selector is invalid.
    """
    if not selector or (not attributes.namespace and attributes.definition.plural != NAMESPACES):
        return True
    if attributes.definition.plural == NAMESPACES and not attributes.subresource and attributes.operation != DELETE:
        labels = labels_of(attributes.obj or {})
    else:
        record = cluster.state.get(NAMESPACES, attributes.namespace)
        if record is None:
            raise status_errors.not_found("", NAMESPACES, attributes.namespace)
        labels = record.labels
    return _selected(selector, labels)


def selects_object(selector: Mapping[str, Any], attributes: Attributes) -> bool:
    """Report whether a selector matches the labels of the new or the old object. Raises StatusError (500)."""
    if not selector:
        return True
    return any(obj is not None and _selected(selector, labels_of(obj)) for obj in (attributes.obj, attributes.old))


def _selected(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    try:
        return label_selector_of(selector).matches(labels)
    except ValueError as err:
        raise status_errors.internal(str(err)) from err
