"""Exec credential plugins: programs that print an ExecCredential.

Follows kubernetes v1.36 client-go/plugin/pkg/client/auth/exec. The program never gets the terminal, may take a minute,
and its credential is used until expirationTimestamp, or until the server rejects it.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from kcm.protocols.times import parse_time
from kcm.runtime.client.config import ConfigError, Credential
from kcm.runtime.client.credentials import bearer
from kcm.runtime.client.exec_certificates import ExecCertificates
from kcm.runtime.metrics.families import REST_CLIENT_EXEC_PLUGIN_CALLS
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock

GROUP = "client.authentication.k8s.io"
API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
PATIENCE = 60.0  # seconds; client-go has no limit


class ExecSpec(Struct, frozen=True, kw_only=True):
    """The `exec` section of a user."""

    # File and field, for errors.
    origin: str
    api_version: str
    # A name that is searched in PATH, or a path.
    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    # Cluster information for the plugin; None without provideClusterInfo.
    cluster: Mapping[str, Any] | None = None


class ExecPlugin:
    """Credential source that runs the program for each load(); the caller caches the result for its lifetime."""

    def __init__(self, spec: ExecSpec, *, environ: Mapping[str, str], clock: Clock, metrics: Metrics) -> None:
        self._spec, self._clock, self._metrics = spec, clock, metrics
        self._certificates = ExecCertificates(metrics, clock)
        self._environ = {**environ, **dict(spec.env), "KUBERNETES_EXEC_INFO": exec_info(spec)}

    def load(self) -> Credential:
        printed = self._run()
        credential = parse_exec_credential(printed, spec=self._spec, now=self._clock.now())
        self._certificates.loaded(credential.certificate)
        return credential

    def _run(self) -> bytes:
        spec = self._spec
        try:
            done = subprocess.run(
                [spec.command, *spec.args],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired as err:
            self._count("1", "plugin_execution_error")
            raise ConfigError(f"{spec.origin}: {spec.command} did not end within {PATIENCE:g} seconds") from err
        except (OSError, ValueError) as err:
            self._count(
                "1", "plugin_not_found_error" if isinstance(err, FileNotFoundError) else "client_internal_error"
            )
            reason = os.strerror(err.errno) if isinstance(err, OSError) and err.errno else str(err)
            hint = f"; {one_line(spec.install_hint)}" if spec.install_hint else ""
            raise ConfigError(f"{spec.origin}: cannot run {spec.command}: {reason}{hint}") from err
        if done.returncode:
            self._count(str(done.returncode), "plugin_execution_error")
            printed = one_line(done.stderr.decode("utf-8", "replace"))
            raise ConfigError(f"{spec.origin}: {spec.command} failed with exit code {done.returncode}: {printed}")
        self._count("0", "no_error")
        return done.stdout

    def _count(self, code: str, call_status: str) -> None:
        self._metrics.counter(REST_CLIENT_EXEC_PLUGIN_CALLS, code, call_status).inc()


def exec_info(spec: ExecSpec) -> str:
    """Return the plugin's KUBERNETES_EXEC_INFO: an ExecCredential with only a spec."""
    spec_sent: dict[str, Any] = {"interactive": False}
    if spec.cluster is not None:
        spec_sent["cluster"] = spec.cluster
    return orjson.dumps({"kind": "ExecCredential", "apiVersion": spec.api_version, "spec": spec_sent}).decode()


def parse_exec_credential(printed: bytes, *, spec: ExecSpec, now: float) -> Credential:
    """Parse the plugin's output. now: Unix seconds. Raises ConfigError if it is not a valid ExecCredential."""
    who = f"{spec.origin}: {spec.command}"
    try:
        document = orjson.loads(printed)
    except orjson.JSONDecodeError as err:
        raise ConfigError(f"{who} printed no JSON: {err}") from err
    if not isinstance(document, dict) or document.get("kind") != "ExecCredential":
        raise ConfigError(f"{who} printed no ExecCredential")
    if document.get("apiVersion") != spec.api_version:
        printed_version = document.get("apiVersion")
        raise ConfigError(f"{who} printed apiVersion {printed_version!r}, the kubeconfig has {spec.api_version!r}")
    status = document.get("status")
    if not isinstance(status, dict):
        raise ConfigError(f"{who} printed an ExecCredential without a status")
    token, certificate, key = (_text(status, name, who) for name in ("token", "clientCertificateData", "clientKeyData"))
    if bool(certificate) != bool(key):
        raise ConfigError(f"{who} printed a client certificate without its key, or a key without its certificate")
    if not token and not certificate:
        raise ConfigError(f"{who} printed neither a token nor a client certificate")
    return Credential(
        authorization=bearer(token, origin=who) if token else "",
        certificate=certificate.encode(),
        key=key.encode(),
        lifetime=_lifetime(_text(status, "expirationTimestamp", who), who=who, now=now),
    )


def one_line(text: str) -> str:
    """Return at most 300 characters of a text, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:300] + "…"


def _text(status: Mapping[str, Any], name: str, who: str) -> str:
    value = status.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigError(f"{who} printed a status.{name} that is not a string")
    return value


def _lifetime(expires: str, *, who: str, now: float) -> float:
    if not expires:
        return math.inf
    try:
        return parse_time(expires) - now
    except ValueError as err:
        raise ConfigError(f"{who} printed an invalid status.expirationTimestamp: {expires!r}") from err
