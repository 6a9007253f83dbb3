"""Flags of programs with webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.engine.webhooks.flags import webhook_serving
from kcm.actors.engine.webhooks.settings import WebhookServing
from kcm.actors.options import InvalidOptionsError
from kcm.actors.reconciliation import ControllerSpec
from kcm.actors.reconciliation.webhooks import validate
from kcm.protocols.resources import PODS
from kcm.runtime.flags.declaration import FlagError
from kcm.runtime.x509.key_rings import CertificateLives


def nothing(_request: Any) -> None:
    return None


SPEC = ControllerSpec(name="checker", build=lambda context: context, admission=(validate(PODS, nothing),))
NAMESPACE = "--leader-elect-resource-namespace=shop"


def serving(*flags: str, in_cluster: bool = False, embeds_cluster: bool = False) -> WebhookServing | None:
    options = read_options([NAMESPACE, *flags], controllers=(SPEC,))
    return webhook_serving(options, name="checker", in_cluster=in_cluster, embeds_cluster=embeds_cluster)


def test_a_program_in_a_pod_is_called_by_its_service() -> None:
    assert serving(in_cluster=True) == WebhookServing(name="checker", namespace="shop")
    assert serving(embeds_cluster=True) == WebhookServing(
        name="checker", namespace="shop", url="https://127.0.0.1:9443", bind_address="127.0.0.1"
    )
    assert serving("--webhook-port=0") is None


def test_flags_set_all_values() -> None:
    assert serving(
        "--webhook-port=8443",
        "--webhook-bind-address=::1",
        "--webhook-service=system/hooks:8443",
        "--webhook-secret=hooks",
        "--webhook-certificate-lifetime=1h",
        "--webhook-authority-lifetime=2h",
        "--webhook-authority-settle=5s",
        "--webhook-authority-overlap=1m",
    ) == WebhookServing(
        name="checker",
        namespace="shop",
        bind_address="::1",
        port=8443,
        service="system/hooks:8443",
        secret="hooks",
        lives=CertificateLives(serving=3600.0, authority=7200.0, settle=5.0, overlap=60.0),
    )


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        ("--webhook-url=http://host", "url of WebhookServing is like https://host:9443, not 'http://host'"),
        ("--webhook-port=70000", "port of WebhookServing is at most 65535, not 70000"),
        ("--webhook-certificate-lifetime=1m", "take at most a third of serving"),
    ],
)
def test_invalid_flags_are_errors_at_the_start(flag: str, error: str) -> None:
    with pytest.raises(InvalidOptionsError, match=error):
        read_options([flag], controllers=(SPEC,))


def test_programs_without_webhooks_have_no_such_flags() -> None:
    with pytest.raises(FlagError, match="unknown flag: --webhook-port"):
        read_options(["--webhook-port=1"])
