from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from kcm.runtime.client.config import ConfigError, Credential
from kcm.runtime.client.exec_plugin import ExecPlugin, ExecSpec, parse_exec_credential
from kcm.runtime.metrics.families import REST_CLIENT_EXEC_PLUGIN_CALLS
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.simulation.clock import VirtualClock

V1 = "client.authentication.k8s.io/v1"
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
SPEC = ExecSpec(origin="config: exec", api_version=V1, command="plugin", install_hint="apt-get\n install it")


def printed(status: Any, **fields: Any) -> bytes:
    return orjson.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": status, **fields})


@pytest.mark.parametrize(
    ("status", "credential"),
    [
        ({"token": "T"}, Credential(authorization="Bearer T")),
        (
            {"token": "T", "expirationTimestamp": "2026-01-01T01:00:00Z"},
            Credential(authorization="Bearer T", lifetime=3600.0),
        ),
        ({"token": "T", "expirationTimestamp": None}, Credential(authorization="Bearer T", lifetime=math.inf)),
        (
            {"clientCertificateData": "C", "clientKeyData": "K"},
            Credential(certificate=b"C", key=b"K"),
        ),
        (
            {"token": "T", "clientCertificateData": "C", "clientKeyData": "K"},
            Credential(authorization="Bearer T", certificate=b"C", key=b"K"),
        ),
    ],
)
def test_plugin_may_return_a_token_or_a_certificate_with_a_lifetime(
    status: dict[str, Any], credential: Credential
) -> None:
    assert parse_exec_credential(printed(status), spec=SPEC, now=NOW) == credential


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (b"", "printed no JSON"),
        (b"error: not logged in", "printed no JSON"),
        (b"[]", "printed no ExecCredential"),
        (b'{"kind":"Pod"}', "printed no ExecCredential"),
        (printed({"token": "T"}, apiVersion="client.authentication.k8s.io/v1beta1"), "the kubeconfig has"),
        (printed(None), "printed an ExecCredential without a status"),
        (printed({}), "printed neither a token nor a client certificate"),
        (printed({"token": 1}), "printed a status.token that is not a string"),
        (printed({"token": "a\nb"}), "not a bearer token"),
        (printed({"clientCertificateData": "C"}), "printed a client certificate without its key"),
        (printed({"clientKeyData": "K"}), "printed a client certificate without its key"),
        (
            printed({"token": "T", "expirationTimestamp": "soon"}),
            "printed an invalid status.expirationTimestamp",
        ),
    ],
)
def test_invalid_output_is_an_error_that_names_the_plugin(output: bytes, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as error:
        parse_exec_credential(output, spec=SPEC, now=NOW)
    assert str(error.value).startswith("config: exec: plugin")
    assert "\n" not in str(error.value)


def run(command: str, metrics: Metrics, *, environ: dict[str, str] | None = None) -> Credential:
    spec = ExecSpec(origin="config: exec", api_version=V1, command=command, install_hint="apt-get\n install it")
    return ExecPlugin(
        spec, environ={"PATH": os.defpath, **(environ or {})}, clock=VirtualClock(), metrics=metrics
    ).load()


def calls(metrics: Metrics, code: str, status: str) -> float:
    return metrics.counter(REST_CLIENT_EXEC_PLUGIN_CALLS, code, status).value


@pytest.fixture
def typed() -> Iterator[None]:
    """Replace standard input by a pipe that contains a typed line."""
    terminal, keyboard = os.pipe()
    os.write(keyboard, b"yes\n")
    before = os.dup(0)
    os.dup2(terminal, 0)
    yield
    os.dup2(before, 0)
    for file in (terminal, keyboard, before):
        os.close(file)


@pytest.mark.usefixtures("typed")
def test_the_plugin_runs_in_our_environment_without_our_terminal(plugin: Callable[[str], str]) -> None:
    script = f"read line && exit 9; echo '{printed({'token': 'X'}).decode()}' | sed s/X/$WHO/"
    metrics = Metrics()
    assert run(plugin(script), metrics, environ={"WHO": "me"}).authorization == "Bearer me"
    assert calls(metrics, "0", "no_error") == 1


def test_output_of_a_failed_plugin_is_quoted(plugin: Callable[[str], str]) -> None:
    metrics = Metrics()
    with pytest.raises(ConfigError, match=r"^config: exec: .*plugin failed with exit code 7: please log in$"):
        run(plugin("echo please >&2; echo log in >&2; exit 7"), metrics)
    assert calls(metrics, "7", "plugin_execution_error") == 1


def test_missing_plugin_is_reported_with_its_install_hint() -> None:
    metrics = Metrics()
    with pytest.raises(ConfigError) as error:
        run("no-such-plugin", metrics)
    assert str(error.value) == "config: exec: cannot run no-such-plugin: No such file or directory; apt-get install it"
    assert calls(metrics, "1", "plugin_not_found_error") == 1


def test_plugin_without_permission_to_run_is_reported(plugin: Callable[[str], str]) -> None:
    path = plugin("exit 0")
    os.chmod(path, 0o600)
    metrics = Metrics()
    with pytest.raises(ConfigError, match="Permission denied"):
        run(path, metrics)
    assert calls(metrics, "1", "client_internal_error") == 1
