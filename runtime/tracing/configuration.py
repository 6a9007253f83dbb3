"""Reader of --tracing-config-file: a TracingConfiguration of kube-apiserver, with upstream's error texts.

Source: kubernetes v1.36 apiserver/pkg/server/options/tracing.go, component-base/tracing/api/v1/config.go.
Differs: spans are sent by OTLP over HTTP instead of gRPC, so the port is 4318 by default, and Unix sockets are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from kcm.runtime.flags.values import quote
from kcm.runtime.process.yaml_texts import json_type

GROUP, KIND = "apiserver.config.k8s.io", "TracingConfiguration"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
SCHEME = "k8s.io/apiserver/pkg/server/options/tracing.go:49"  # part of upstream's text
NO_VERSION = "couldn't get version/kind; json parse error: json:"
VERSION_AND_KIND = (
    'value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
FIELDS = ("apiVersion", "endpoint", "kind", "samplingRatePerMillion")
MILLION = 1_000_000
LARGEST_INT32 = 2**31 - 1
PORT = 4318  # of OTLP over HTTP
GRPC_NAMING = "https://github.com/grpc/grpc/blob/master/doc/naming.md"  # part of upstream's text
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)


class TracingError(Exception):
    """Traces cannot be enabled. The text is one line for the operator."""


class TracingConfiguration(Struct, frozen=True, kw_only=True):
    """Target and sampling of traces.

    url: of the collector, with the path of traces; "": as the environment variables OTEL_EXPORTER_OTLP_* define it.
    sampling_rate: fraction of the traces without a sampled cause, 0 to 1.
    """

    url: str = ""
    sampling_rate: float = 0.0


def read_tracing_configuration(path: Path) -> TracingConfiguration:
    """Return the configuration in a file. An empty file has all defaults, as upstream. Raises TracingError."""
    from kcm.runtime.process.go_yaml import YamlError, read_first  # few runs need it

    try:
        raw = path.read_bytes()
    except OSError as err:
        operation = "read" if isinstance(err, IsADirectoryError) else "open"
        reason = (err.strerror or str(err)).lower()
        raise TracingError(
            f"failed to read tracing config: unable to read tracing configuration from {quote(str(path))}: "
            f"{operation} {path}: {reason}"
        ) from err
    try:
        document = read_first(raw)
        found = _decoded(document.value, list(document.repeated))
    except (YamlError, ValueError) as err:
        raise TracingError(
            f"failed to read tracing config: unable to decode tracing configuration data: {err}"
        ) from err
    rate, endpoint = found.get("samplingRatePerMillion"), found.get("endpoint")
    faults = [*_rate_faults(rate), *_endpoint_faults(endpoint)]
    if faults:
        text = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        raise TracingError(f"failed to validate tracing configuration: {text}")
    return TracingConfiguration(
        url=_url_of(endpoint) if endpoint else "", sampling_rate=0.0 if rate is None else rate / MILLION
    )


def _decoded(value: Any, repeated: list[str]) -> Mapping[str, Any]:
    """Return the object. Raises ValueError with upstream's text for another kind of object or unknown fields."""
    if not isinstance(value, dict | None):
        raise ValueError(f"{NO_VERSION} cannot unmarshal {json_type(value)} into Go {VERSION_AND_KIND}")
    found = {name: content for name, content in (value or {}).items() if content is not None}
    for name in ("apiVersion", "kind"):
        if not isinstance(found.get(name, ""), str):
            raise ValueError(
                f"{NO_VERSION} cannot unmarshal {json_type(found[name])} into Go struct field .{name} of type string"
            )
    kind, api_version = found.get("kind") or KIND, found.get("apiVersion") or f"{GROUP}/{VERSIONS[0]}"
    if api_version.count("/") > 1:
        raise ValueError(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    if (group, kind) != (GROUP, KIND) or version not in VERSIONS:
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}" in scheme "{SCHEME}"')
    endpoint, rate = found.get("endpoint"), found.get("samplingRatePerMillion")
    if endpoint is not None and not isinstance(endpoint, str):
        raise _wrong_type(json_type(endpoint), "endpoint", "string")
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float)):
        raise _wrong_type(json_type(rate), "samplingRatePerMillion", "int32")
    if rate is not None and (isinstance(rate, float) or not -LARGEST_INT32 - 1 <= rate <= LARGEST_INT32):
        raise _wrong_type(f"number {rate}", "samplingRatePerMillion", "int32")
    strict = ["yaml: unmarshal errors:" + "".join(f"\n  {text}" for text in repeated)] if repeated else []
    strict += [f"unknown field {quote(name)}" for name in sorted(found) if name not in FIELDS]
    if strict:
        raise ValueError(f"strict decoding error: {', '.join(strict)}")
    return found


def _wrong_type(found: str, field: str, expected: str) -> ValueError:
    return ValueError(f"json: cannot unmarshal {found} into Go struct field {KIND}.{KIND}.{field} of type {expected}")


def _rate_faults(rate: int | None) -> Iterator[str]:
    if rate is not None and rate < 0:
        yield f"samplingRatePerMillion: Invalid value: {rate}: sampling rate must be positive"
    if rate is not None and rate > MILLION:
        yield (
            f"samplingRatePerMillion: Invalid value: {rate}: "
            "sampling rate per million must be less than or equal to one million"
        )


def _endpoint_faults(endpoint: str | None) -> Iterator[str]:
    if not endpoint:
        return
    target = endpoint if "//" in endpoint else f"dns://{endpoint}"
    invalid = f"endpoint: Invalid value: {quote(target)}: "
    parts = _SCHEME.fullmatch(target)
    if parts is None:
        yield f"{invalid}parse {quote(target)}: first path segment in URL cannot contain colon"
        return
    scheme = parts[1].lower()
    if scheme in ("unix", "unix-abstract"):
        yield f"{invalid}kcm sends traces by OTLP over HTTP, which has no Unix sockets"
    elif scheme != "dns":
        yield (
            f"{invalid}unsupported scheme: {scheme}.  Options are none, dns, unix, or unix-abstract.  See {GRPC_NAMING}"
        )
    elif fault := _host_fault(_host_of(endpoint)):
        yield f"{invalid}parse {quote(target)}: {fault}"


def _host_fault(host: str) -> str:
    """Return why host and port are invalid, in Go's words; "" if they are valid."""
    invalid = re.search(r"[\s<>\"{}|\\^`%@?#]", host)
    if invalid is not None:
        return f"invalid character {quote(invalid[0])} in host name"
    if host.startswith("[") and "]" not in host:
        return "missing ']' in host"
    after = host.rpartition("]")[2]
    port = after.rpartition(":")[2] if ":" in after else ""
    return f"invalid port {quote(f':{port}')} after host" if port and not port.isdecimal() else ""


def _host_of(endpoint: str) -> str:
    """Return host and port of a target of gRPC: HOST, dns:HOST, dns://HOST or dns://NAME-SERVER/HOST.

    A name server has no effect.
    """
    _, is_url, rest = endpoint.partition("//")
    if not is_url:
        return endpoint.removeprefix("dns:")
    authority, _, path = rest.partition("/")
    return path or authority


def _url_of(endpoint: str) -> str:
    host = _host_of(endpoint)
    has_port = ":" in host.rpartition("]")[2]
    return f"http://{host}/v1/traces" if has_port else f"http://{host}:{PORT}/v1/traces"
