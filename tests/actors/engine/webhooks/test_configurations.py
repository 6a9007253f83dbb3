"""WebhookConfigurations that are derived from specs: the API server accepts them and stores nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.engine.webhooks.configurations import (
    MUTATING_CONFIGURATIONS,
    VALIDATING_CONFIGURATIONS,
    conversion_settings,
    namespace_selector,
    selector_object,
    webhook_configurations,
)
from kcm.actors.engine.webhooks.settings import WebhookServing
from kcm.actors.reconciliation import ControllerSpec
from kcm.actors.reconciliation.webhooks import mutate, validate
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import name_of
from kcm.protocols.resources import NODES, PODS, Resource
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.x509.key_rings import CertificateLives

WIDGETS = Resource(group="example.com", version="v1", plural="widgets", kind="Widget")
SERVING = WebhookServing(name="widget-operator", namespace="widgets")


def nothing(_request: Any) -> None:
    return None


SPEC = ControllerSpec(
    name="widgets",
    build=lambda context: context,
    admission=(
        mutate(WIDGETS, nothing),
        mutate(PODS, nothing, labels="app in (b,a),!old", match_conditions={"not-dry": "!request.dryRun"}),
        validate(WIDGETS, nothing, subresource="*", operations=("CREATE", "UPDATE", "DELETE"), failure_policy="Ignore"),
        validate(NODES, nothing, subresource="status", side_effects="NoneOnDryRun", timeout_seconds=1),
    ),
)


@pytest.mark.parametrize("serving", [SERVING, WebhookServing(name="widget-operator", url="https://127.0.0.1:9443")])
def test_the_api_server_stores_the_configurations_unchanged(serving: WebhookServing, cluster: SimulatedCluster) -> None:
    served = {MUTATING_CONFIGURATIONS.name, VALIDATING_CONFIGURATIONS.name}
    cluster.serve(*(kind for kind in BUILT_IN if f"{kind.plural}.{kind.group}" in served))
    found = webhook_configurations((SPEC,), serving)
    assert [resource for resource, _ in found] == [MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS]
    for resource, wanted in found:
        assert name_of(wanted) == "widget-operator"
        assert cluster.create(resource, wanted)["webhooks"] == wanted["webhooks"]


def test_a_program_without_webhooks_has_no_configuration() -> None:
    assert webhook_configurations((ControllerSpec(name="plain", build=lambda context: context),), SERVING) == []


def test_resources_and_scope_of_the_rules() -> None:
    rules = {
        webhook["name"]: (webhook["rules"][0]["resources"], webhook["rules"][0]["scope"])
        for _, configuration in webhook_configurations((SPEC,), SERVING)
        for webhook in configuration["webhooks"]
    }
    assert rules == {
        "mutate.widgets.example.com": (["widgets"], "Namespaced"),
        "mutate.pods.core": (["pods"], "Namespaced"),
        "validate.widgets.example.com": (["widgets", "widgets/*"], "Namespaced"),
        "validate.status.nodes.core": (["nodes/status"], "Cluster"),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("app=web", {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
        ("app!=web", {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
        (
            "a in (y,x),b notin (z),c,!d",
            {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["x", "y"]},
                    {"key": "b", "operator": "NotIn", "values": ["z"]},
                    {"key": "c", "operator": "Exists"},
                    {"key": "d", "operator": "DoesNotExist"},
                ]
            },
        ),
    ],
)
def test_selectors_in_text_form_become_label_selectors(text: str, expected: Any) -> None:
    assert selector_object(text) == expected


def test_the_control_plane_and_the_own_namespace_are_exempt_for_built_in_resources_only() -> None:
    exempt = {
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-node-lease", "kube-system", "widgets"],
            }
        ]
    }
    assert namespace_selector(validate(PODS, nothing), SERVING) == exempt
    assert namespace_selector(validate(PODS, nothing, namespace_labels=""), SERVING) == {}
    assert namespace_selector(validate(WIDGETS, nothing), SERVING) == {}
    assert namespace_selector(validate(NODES, nothing), SERVING) == {}


def test_two_programs_parts_with_one_name_are_refused() -> None:
    other = ControllerSpec(name="other", build=lambda context: context, admission=(mutate(WIDGETS, nothing),))
    with pytest.raises(ValueError, match=r"two webhooks of the program are named mutate\.widgets\.example\.com"):
        webhook_configurations((SPEC, other), SERVING)


@pytest.mark.parametrize(
    ("given", "client", "names"),
    [
        (
            {},
            {"service": {"namespace": "widgets", "name": "widget-operator-webhook", "path": "/p", "port": 443}},
            (
                "widget-operator-webhook.widgets.svc",
                "widget-operator-webhook.widgets.svc.cluster.local",
                "widget-operator-webhook.widgets",
            ),
        ),
        (
            {"service": "system/hooks:8443"},
            {"service": {"namespace": "system", "name": "hooks", "path": "/p", "port": 8443}},
            ("hooks.system.svc", "hooks.system.svc.cluster.local", "hooks.system"),
        ),
        ({"url": "https://host.example:9443/"}, {"url": "https://host.example:9443/p"}, ("host.example",)),
        ({"url": "https://[::1]:9443/sub"}, {"url": "https://[::1]:9443/sub/p"}, ("::1",)),
    ],
)
def test_addresses_of_the_server(given: dict[str, Any], client: Any, names: Any) -> None:
    serving = WebhookServing(name="widget-operator", namespace="widgets", **given)
    assert serving.client_config("/p") == client
    assert serving.client_config("/p", "QQ==") == {**client, "caBundle": "QQ=="}
    assert serving.server_names == names


def test_the_conversion_of_a_definition_names_its_path() -> None:
    assert conversion_settings("widgets.example.com", SERVING) == {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {
                "service": {
                    "namespace": "widgets",
                    "name": "widget-operator-webhook",
                    "path": "/convert/widgets.example.com",
                    "port": 443,
                }
            },
            "conversionReviewVersions": ["v1"],
        },
    }


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"name": ""}, "name of WebhookServing is empty"),
        ({"name": "A"}, "name of WebhookServing is a name"),
        ({"namespace": "a b"}, "namespace of WebhookServing"),
        ({"bind_address": "localhost"}, "bind_address of WebhookServing is an IP address, not 'localhost'"),
        ({"port": 70000}, "at most 65535"),
        ({"service": "a/b/c"}, "service of WebhookServing"),
        ({"service": "a:0"}, "service of WebhookServing"),
        ({"secret": "a:1"}, "secret of WebhookServing"),
        ({"url": "http://host"}, "url of WebhookServing is like https://host:9443"),
        ({"url": "https://user@host"}, "url of WebhookServing"),
        ({"url": "https://host:99999"}, "url of WebhookServing"),
        ({"url": "https://host?a=b"}, "url of WebhookServing"),
        ({"url": "https://host", "service": "hooks"}, "a url or a service, not both"),
    ],
)
def test_invalid_settings_are_refused_with_the_name_of_the_field(given: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        WebhookServing(**{"name": "operator", **given})


@pytest.mark.parametrize("given", [{"serving": 0}, {"serving": 9e9}, {"overlap": 2e6}])
def test_lifetimes_without_room_for_a_rotation_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="CertificateLives"):
        CertificateLives(**given)
