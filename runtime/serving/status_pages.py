"""/flagz and /statusz: flags and state of the process, as text or as a structured object.

Follows k8s.io/component-base/zpages, Kubernetes 1.36, except for the separator, which upstream chooses at random.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

COMPONENT = "kube-controller-manager"
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
GROUP, VERSIONS = "config.k8s.io", ("v1beta1", "v1alpha1")


class ZPage(Struct, frozen=True):
    """A body and its content type."""

    body: str
    content_type: str


def wanted_version(accept: str, kind: str) -> str | None:
    """Return the form that an Accept header requests.

    "" is text, otherwise the version of the structured object; None if the form is not served.
    """
    for media_range in accept.split(",") or [""]:
        media_type, *parameters = (part.strip() for part in media_range.split(";"))
        asked = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media_type == "application/json" and asked.get("as") == kind and asked.get("g") == GROUP:
            if asked.get("v") in VERSIONS:
                return asked["v"]
        elif media_type in {"", "*/*", "text/*", "text/plain"}:
            return ""
    return None


def flags_page(flags: Mapping[str, str], version: str) -> ZPage:
    """Return /flagz. version: as wanted_version returns it."""
    if version:
        return _structured("Flagz", version, {"flags": dict(sorted(flags.items()))})
    return _text("flagz", dict(sorted(flags.items())))


def status_page(*, started: float, now: float, binary: str, emulated: str, paths: Sequence[str], version: str) -> ZPage:
    """Return /statusz.

    started, now: Unix seconds.
    binary, emulated: versions of Kubernetes.
    version: as wanted_version returns it.
    """
    start = datetime.fromtimestamp(int(started), tz=UTC)
    uptime = max(0, int(now - started))
    if version:
        facts = {
            "startTime": start.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "uptimeSeconds": uptime,
            "binaryVersion": binary,
            "emulationVersion": emulated,
            "paths": list(paths),
        }
        return _structured("Statusz", version, facts)
    return _text(
        "statusz",
        {
            "Started": start.strftime("%a %b %d %H:%M:%S UTC %Y"),
            "Up": str(timedelta(seconds=uptime)),
            "Binary version": binary,
            "Emulation version": emulated,
            "Paths": " ".join(paths),
        },
    )


def _text(name: str, facts: Mapping[str, str]) -> ZPage:
    lines = [f"{COMPONENT} {name}", WARNING, "", *(f"{key}: {value}" for key, value in facts.items())]
    return ZPage("\n".join(lines) + "\n", "text/plain")


def _structured(kind: str, version: str, facts: Mapping[str, Any]) -> ZPage:
    body = {"kind": kind, "apiVersion": f"{GROUP}/{version}", "metadata": {"name": COMPONENT}, **facts}
    return ZPage(json.dumps(body) + "\n", "application/json")
