"""WebhookConfigurations and the conversion of CustomResourceDefinitions, derived from the specs of controllers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcm.actors.engine.webhooks.settings import WebhookServing
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.reconciliation.webhooks import (
    CONTROL_PLANE,
    AdmissionWebhook,
    VersionConversion,
    by_resource,
    check_webhooks,
    is_built_in,
)
from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from kcm.protocols.selectors import Operator, parse_label_selector

GROUP = "admissionregistration.k8s.io"
MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS = (
    Resource(group=GROUP, version="v1", plural=f"{kind.lower()}s", kind=kind, namespaced=False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)
REVIEW_VERSIONS = ["v1"]
NAME_LABEL = "kubernetes.io/metadata.name"  # of each namespace, set by the API server
_OPERATORS = {
    Operator.EQUALS: "In",
    Operator.IN: "In",
    Operator.NOT_EQUALS: "NotIn",
    Operator.NOT_IN: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
}


def admission_of(specs: Iterable[ControllerSpec]) -> tuple[AdmissionWebhook, ...]:
    """Return the admission webhooks of all controllers. Raises ValueError if two have the same name."""
    found = tuple(webhook for spec in specs for webhook in spec.admission)
    check_webhooks("the program", found, ())
    return found


def conversions_of(specs: Iterable[ControllerSpec]) -> dict[str, tuple[VersionConversion, ...]]:
    """Return the conversions of all controllers, by the name of the CustomResourceDefinition.

    Raises ValueError if a pair of versions is declared twice or cannot be converted.
    """
    found = tuple(conversion for spec in specs for conversion in spec.conversion)
    check_webhooks("the program", (), found)
    return by_resource(found)


def has_webhooks(specs: Iterable[ControllerSpec]) -> bool:
    return any(spec.admission or spec.conversion for spec in specs)


def conversion_path(definition: str) -> str:
    """Return the path of the conversion webhook of a CustomResourceDefinition."""
    return f"/convert/{definition}"


def webhook_configurations(
    specs: Iterable[ControllerSpec], serving: WebhookServing, *, bundle: str = ""
) -> list[tuple[Resource, Object]]:
    """Return the mutating and the validating configuration, each with its resource; none without webhooks.

    All fields have values, so that a comparison with the stored object finds what others have changed.

    bundle: the CAs in PEM and base64; "" to leave caBundle out.
    """
    webhooks = admission_of(specs)
    found = []
    for resource, mutating in ((MUTATING_CONFIGURATIONS, True), (VALIDATING_CONFIGURATIONS, False)):
        chosen = [_webhook(webhook, serving, bundle) for webhook in webhooks if webhook.mutating == mutating]
        if chosen:
            head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": serving.name}}
            found.append((resource, {**head, "webhooks": chosen}))
    return found


def conversion_settings(definition: str, serving: WebhookServing, *, bundle: str = "") -> Object:
    """Return `spec.conversion` of a CustomResourceDefinition. bundle: as in webhook_configurations."""
    client = serving.client_config(conversion_path(definition), bundle)
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": list(REVIEW_VERSIONS)},
    }


def selector_object(text: str) -> Object:
    """Return a LabelSelector with the requirements of a selector in text form."""
    requirements = parse_label_selector(text).requirements
    if not requirements:
        return {}
    expressions: list[Object] = []
    for requirement in requirements:
        expression: dict[str, Any] = {"key": requirement.key, "operator": _OPERATORS[requirement.operator]}
        if requirement.values:
            expression["values"] = list(requirement.values)
        expressions.append(expression)
    return {"matchExpressions": expressions}


def namespace_selector(webhook: AdmissionWebhook, serving: WebhookServing) -> Object:
    """Return the namespaceSelector of a webhook.

    By default a webhook of built-in resources is not called in the namespaces of the control plane and of the program
    itself: otherwise, while the webhook is not served, nothing there could be written to repair that.
    """
    if webhook.namespace_labels is not None:
        return selector_object(webhook.namespace_labels)
    if not is_built_in(webhook.resource) or not webhook.resource.namespaced:
        return {}
    exempt = ", ".join(dict.fromkeys((*CONTROL_PLANE, serving.namespace)))
    return selector_object(f"{NAME_LABEL} notin ({exempt})")


def _webhook(webhook: AdmissionWebhook, serving: WebhookServing, bundle: str) -> Object:
    resource = webhook.resource
    plural = resource.plural
    resources = {"": [plural], "*": [plural, f"{plural}/*"]}.get(
        webhook.subresource, [f"{plural}/{webhook.subresource}"]
    )
    rule = {
        "apiGroups": [resource.group],
        "apiVersions": [resource.version],
        "operations": list(webhook.operations),
        "resources": resources,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
    }
    found: Object = {
        "name": webhook.name,
        "admissionReviewVersions": list(REVIEW_VERSIONS),
        "clientConfig": serving.client_config(webhook.path, bundle),
        "rules": [rule],
        "failurePolicy": webhook.failure_policy,
        "matchPolicy": webhook.match_policy,
        "namespaceSelector": namespace_selector(webhook, serving),
        "objectSelector": selector_object(webhook.labels),
        "sideEffects": webhook.side_effects,
        "timeoutSeconds": webhook.timeout_seconds,
    }
    if webhook.match_conditions:
        found["matchConditions"] = [
            {"name": name, "expression": expression} for name, expression in webhook.match_conditions.items()
        ]
    if webhook.mutating:
        found["reinvocationPolicy"] = webhook.reinvocation_policy
    return found
