"""Webhooks found in pods."""

from __future__ import annotations

from typing import Any

from tests.conformance.webhook_pods import Wanted, wanted_by


def webhook_pod(address: str = "240.0.0.2", **container: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "w", "namespace": "n", "uid": "u"},
        "spec": {
            "volumes": [{"name": "certs", "secret": {"secretName": "s"}}, {"name": "token", "projected": {}}],
            "containers": [
                {"args": ["pause"]},
                {
                    "volumeMounts": [{"name": "certs", "mountPath": "/keys"}, {"name": "token", "mountPath": "/var"}],
                    **container,
                },
            ],
        },
        "status": {"podIP": address} if address else {},
    }


def test_webhook_runs_with_the_arguments_of_its_pod() -> None:
    arguments = ["webhook", "--tls-cert-file=/keys/tls.crt", "--port=8444"]
    wanted = wanted_by(webhook_pod(args=arguments))
    assert wanted == Wanted("n", "240.0.0.2", tuple(arguments), (("/keys", "s"),))
    assert wanted.port == 8444


def test_other_pods_only_seem_to_run() -> None:
    assert wanted_by(webhook_pod(args=["netexec"])) is None
    assert wanted_by(webhook_pod()) is None


def test_it_is_run_once_the_pod_has_its_address() -> None:
    assert wanted_by(webhook_pod(address="", args=["webhook"])) is None
