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

GROUP, KIND = "apiserver.config.k8s.io", "TracingConfiguration"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
SCHEME = "k8s.io/apiserver/pkg/server/options/tracing.go:44"  # part of upstream's text
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
    """Return the configuration in a file. Raises TracingError."""
    from kcm.runtime.process.go_yaml import YamlError, read_first  # few runs need it

    try:
        raw = path.read_bytes()
    except FileNotFoundError as err:
        raise TracingError(f"tracing-config-file {path} does not exist") from err
    except OSError as err:
        reason = (err.strerror or str(err)).lower()
        raise TracingError(
            f"failed to read tracing config: unable to read tracing configuration from {quote(str(path))}: "
            f"open {path}: {reason}"
        ) from err
    try:
        document = read_first(raw)
        repeated = [f"yaml: unmarshal errors:\n  {text}" for text in document.repeated]
        found = _decoded(document.value, raw.decode(errors="replace"), repeated)
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
        url="" if endpoint is None else _url_of(endpoint), sampling_rate=0.0 if rate is None else rate / MILLION
    )


def _decoded(value: Any, text: str, repeated: list[str]) -> Mapping[str, Any]:
    """Return the object. Raises ValueError with upstream's text for another kind of object or unknown fields."""
    if not isinstance(value, dict | None):
        raise ValueError(f"couldn't get version/kind; json parse error: cannot unmarshal {_json_type(value)}")
    found = {name: content for name, content in (value or {}).items() if content is not None}
    if not found.get("kind"):
        raise ValueError(f"Object 'Kind' is missing in '{text}'")
    if not found.get("apiVersion"):
        raise ValueError(f"Object 'apiVersion' is missing in '{text}'")
    group, _, version = str(found["apiVersion"]).rpartition("/")
    if (group, found["kind"]) != (GROUP, KIND) or version not in VERSIONS:
        raise ValueError(
            f'no kind "{found["kind"]}" is registered for version "{found["apiVersion"]}" in scheme "{SCHEME}"'
        )
    endpoint, rate = found.get("endpoint"), found.get("samplingRatePerMillion")
    if endpoint is not None and not isinstance(endpoint, str):
        raise _wrong_type(_json_type(endpoint), "endpoint", "string")
    if rate is not None and (not isinstance(rate, int) or isinstance(rate, bool)):
        raise _wrong_type(_json_type(rate), "samplingRatePerMillion", "int32")
    if rate is not None and not -LARGEST_INT32 - 1 <= rate <= LARGEST_INT32:
        raise _wrong_type(f"number {rate}", "samplingRatePerMillion", "int32")
    strict = repeated + [f"unknown field {quote(name)}" for name in sorted(found) if name not in FIELDS]
    if strict:
        raise ValueError(f"strict decoding error: {', '.join(strict)}")
    return found


def _wrong_type(found: str, field: str, expected: str) -> ValueError:
    return ValueError(f"json: cannot unmarshal {found} into Go struct field {KIND}.{field} of type {expected}")


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _rate_faults(rate: int | None) -> Iterator[str]:
    if rate is not None and rate < 0:
        yield f"samplingRatePerMillion: Invalid value: {rate}: sampling rate must be positive"
    if rate is not None and rate > MILLION:
        yield (
            f"samplingRatePerMillion: Invalid value: {rate}: "
            "sampling rate per million must be less than or equal to one million"
        )


def _endpoint_faults(endpoint: str | None) -> Iterator[str]:
    if endpoint is None:
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
    else:
        yield from _host_faults(target, invalid)


def _host_faults(target: str, invalid: str) -> Iterator[str]:
    host = _host_of(target)
    name, bracket, after = host.rpartition("]")
    port = after.partition(":")[2] if bracket else host.partition(":")[2]
    if host.count(":") > 1 and not bracket:
        port = host.partition(":")[2]
    if port and not port.isdecimal():
        yield f"{invalid}parse {quote(target)}: invalid port {quote(f':{port}')} after host"
    elif not host or (bracket and not name.startswith("[")) or re.search(r"[\s<>\"{}|\\^`%@?#]", host):
        yield f"{invalid}parse {quote(target)}: invalid host name"


def _host_of(target: str) -> str:
    """Return host and port of a target "dns://HOST", or "dns://NAME-SERVER/HOST"; our resolver names no server."""
    authority, _, path = target.partition("//")[2].partition("/")
    return path or authority


def _url_of(endpoint: str) -> str:
    host = _host_of(endpoint if "//" in endpoint else f"dns://{endpoint}")
    has_port = ":" in host.rpartition("]")[2]
    return f"http://{host}/v1/traces" if has_port else f"http://{host}:{PORT}/v1/traces"
