"""Validation of probes and lifecycle hooks of containers.

Source: kubernetes pkg/apis/core/validation/validation.go, validateProbe, validateHandler, validateLifecycle (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcm.runtime.apiserver.rules.names import too_many_characters
from kcm.runtime.apiserver.rules.numbers import NOT_NEGATIVE, port_problems

_KINDS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_header = re.compile("[-A-Za-z0-9]+")
_port = re.compile("[-a-z0-9]+")

Part = Mapping[str, Any]


def wrong_probes(container: Part, field: str, *, grace: int | None) -> Iterator[FieldError]:
    """Validate the probes of a container. grace: terminationGracePeriodSeconds of the pod."""
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        at = f"{field}.{name}"
        yield from _probe(probe, at, grace=grace)
        if name == "readinessProbe":
            if probe.get("terminationGracePeriodSeconds") is not None:
                seconds = probe["terminationGracePeriodSeconds"]
                yield invalid(f"{at}.terminationGracePeriodSeconds", seconds, "must not be set for readinessProbes")
        elif probe.get("successThreshold") != 1:
            yield invalid(f"{at}.successThreshold", probe.get("successThreshold") or 0, "must be 1")


def _probe(probe: Part, field: str, *, grace: int | None) -> Iterator[FieldError]:
    yield from _handler(probe, field, grace=grace)
    for name in _NUMBERS:
        if (probe.get(name) or 0) < 0:
            yield invalid(f"{field}.{name}", probe[name], NOT_NEGATIVE)
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid(f"{field}.terminationGracePeriodSeconds", seconds, "must be greater than 0")


def wrong_hooks(lifecycle: Part, field: str, *, grace: int | None) -> Iterator[FieldError]:
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            yield from _handler(lifecycle[name], f"{field}.{name}", grace=grace)


def _handler(handler: Part, field: str, *, grace: int | None) -> Iterator[FieldError]:
    given = [name for name in _KINDS if handler.get(name) is not None]
    for i, name in enumerate(given):
        action, at = handler[name], f"{field}.{name}"
        if i:
            yield forbidden(at, "may not specify more than 1 handler type")
            continue
        match name:
            case "exec":
                if not action.get("command"):
                    yield required(f"{at}.command")
            case "httpGet":
                yield from _http(action, at)
            case "tcpSocket":
                yield from _port_of(action, at)
            case "grpc":
                for text in port_problems(action.get("port") or 0):
                    yield invalid(f"{at}.port", action.get("port") or 0, text)
            case "sleep":
                seconds = action.get("seconds") or 0
                if grace is not None and not 0 <= seconds <= grace:
                    detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                    yield invalid(at, seconds, detail)
    if not given:
        yield required(field, "must specify a handler type")


def _http(action: Part, field: str) -> Iterator[FieldError]:
    if not action.get("path"):
        yield required(f"{field}.path")
    yield from _port_of(action, field)
    scheme = action.get("scheme") or ""
    if scheme not in ("HTTP", "HTTPS"):
        yield not_supported(f"{field}.scheme", scheme, ("HTTP", "HTTPS"))
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        if not _header.fullmatch(name):
            rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
            detail = f"{rule} (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
            yield invalid(f"{field}.httpHeaders", name, detail)


def _port_of(action: Part, field: str) -> Iterator[FieldError]:
    port = action.get("port", 0)
    problems = port_problems(port) if isinstance(port, int) else port_name_problems(port)
    for text in problems:
        yield invalid(f"{field}.port", port, text)


def port_name_problems(name: str) -> list[str]:
    """Return the error texts for a port name; [] if it is valid.

    Source: apimachinery pkg/util/validation, IsValidPortName (v1.36).
    """
    problems = [too_many_characters(15)] if len(name) > 15 else []
    if not _port.fullmatch(name):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        problems.append("must contain at least one letter (a-z)")
    if "--" in name:
        problems.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems
