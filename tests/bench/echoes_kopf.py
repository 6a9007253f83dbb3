"""The controller of the benchmark custom-resources, on kopf: kopf run tests/bench/echoes_kopf.py"""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = False  # no events: the others record none


@kopf.on.login()
def login(**arguments: Any) -> Any:
    return kopf.login_with_kubeconfig(**arguments)


@kopf.on.create("bench.kcm.dev", "v1", "echoes")
@kopf.on.update("bench.kcm.dev", "v1", "echoes")
@kopf.on.resume("bench.kcm.dev", "v1", "echoes")
async def echo(spec: kopf.Spec, patch: kopf.Patch, status: kopf.Status, **_: Any) -> None:
    """Copy the text of an Echo from its spec to its status."""
    if status.get("text") != spec["text"]:
        patch.status["text"] = spec["text"]
