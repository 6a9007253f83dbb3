"""Requests for the objects of the tables, and the recorded part of the responses."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.requests import JSON, Exchange, Given

RESPONSES = Path(__file__).parents[1] / "responses" / "kinds"
NAMESPACE = "contract"
# Privileged pods are permitted, as on most clusters, and kinds that are off by default are served.
FLAGS = (
    "--allow-privileged=true",
    (
        "--runtime-config=resource.k8s.io/v1beta2/devicetaintrules=true,resource.k8s.io/v1alpha3=true,"
        "storagemigration.k8s.io/v1beta1=true,internal.apiserver.k8s.io/v1alpha1=true,scheduling.k8s.io/v1alpha2=true"
    ),
    (
        "--feature-gates=StorageVersionMigrator=true,StorageVersionAPI=true,GenericWorkload=true,"
        "DRAWorkloadResourceClaims=true"
    ),
)

Overlay = Any
"""Changes of an object as an RFC 7386 merge patch, or a function that changes a copy in place."""


class Kind(NamedTuple):
    """Cases of a kind.

    collection: path of the collection.
    good: a valid object.
    creates: overlays of the valid object, each sent with POST.
    updates: overlays of the stored object, each sent with PUT.
    statuses: the same for its status.
    """

    collection: str
    good: dict[str, Any]
    creates: dict[str, Overlay] = {}  # noqa: RUF012 - never changed
    updates: dict[str, Overlay] = {}  # noqa: RUF012 - never changed
    statuses: dict[str, Overlay] = {}  # noqa: RUF012 - never changed


Table = dict[str, Kind]


def laid_over(obj: Any, overlay: Overlay) -> Any:
    """Return a copy of the object with the overlay applied."""
    if callable(overlay):
        changed = copy.deepcopy(obj)
        overlay(changed)
        return changed
    if not isinstance(overlay, dict):
        return copy.deepcopy(overlay)
    found = copy.deepcopy(obj) if isinstance(obj, dict) else {}
    for name, value in overlay.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = laid_over(found.get(name), value)
    return found


def play(kind: Kind, send: Exchange) -> dict[str, Any]:
    """Return the responses by case. Only the valid object is stored, and it is deleted afterwards."""
    dry = {"dryRun": "All"}

    def ask(method: str, path: str, body: Any, query: dict[str, str]) -> Any:
        raw = b"" if body is None else json.dumps(body).encode()
        return send(Given(method, path, raw, JSON, query))

    status, stored, warnings = ask("POST", kind.collection, kind.good, {})
    answers = {"good": _plain(status, stored, warnings)}
    name = f"{kind.collection}/{(stored.get('metadata') or {}).get('name', '')}"
    for where, overlays in (("", kind.updates), ("/status", kind.statuses)):
        for label, overlay in overlays.items():
            changed = laid_over(stored, overlay)
            answers[f"{'status' if where else 'update'}: {label}"] = _plain(*ask("PUT", name + where, changed, dry))
    if status == 201:
        _remove(name, ask)
    for label, overlay in kind.creates.items():
        answers[f"create: {label}"] = _plain(*ask("POST", kind.collection, laid_over(kind.good, overlay), dry))
    return answers


def _remove(name: str, ask: Callable[..., Any]) -> None:
    """Delete the object, and remove the finalizers for which no controller runs."""
    ask("DELETE", name, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}, {})
    status, held, _ = ask("GET", name, None, {})
    if status == 200:
        held["metadata"].pop("finalizers", None)
        path = name
        if held["kind"] == "Namespace":
            held["spec"].pop("finalizers", None)
            path = f"{name}/finalize"
        ask("PUT", path, held, {})


_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|uid-\d+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_META = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


_OF_THE_KIND = "v1 Endpoints is deprecated"  # a warning of the HTTP server for each request


def _plain(status: int, answer: Any, warnings: list[str]) -> dict[str, Any]:
    """Return the response without the parts that differ between runs, or an error's reason and causes in sorted order.

    The order of causes upstream is that of iteration over Go's maps.
    """
    warnings = [text for text in warnings if not text.startswith(_OF_THE_KIND)]
    if status >= 400:
        causes = (answer.get("details") or {}).get("causes") or ()
        listed = sorted(
            _UID.sub("<uid>", f"{cause.get('field', '')} {cause['reason']}: {cause['message']}") for cause in causes
        )
        message = answer["message"].partition(" is invalid: ")[0] if causes else answer["message"]
        refusal = {"status": status, "reason": answer.get("reason", ""), "message": message, "causes": listed}
        return {**refusal, "warnings": warnings} if warnings else refusal
    found = copy.deepcopy(answer)
    if (found.get("spec") or {}).get("serviceAccountName") == "default":  # set by another plugin
        del found["spec"]["serviceAccountName"], found["spec"]["serviceAccount"]
    for field in _META:
        (found.get("metadata") or {}).pop(field, None)
    shown = {"status": status, "body": _times(found)}
    return {**shown, "warnings": warnings} if warnings else shown


def _times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _times(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_times(inner) for inner in value]
    return _UID.sub("<uid>", _TIME.sub("<time>", value)) if isinstance(value, str) else value


def record(directory: Path, assets: Path) -> None:
    """Record the responses of a kube-apiserver."""
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import real_server
    from tests.runtime.apiserver.contracts.kinds.tables import TABLES

    with real_server(directory, assets, *FLAGS) as server:
        api = Api(server.kubeconfig)
        send = requests.real_exchange(api.url, api.token)
        prepare(send)
        for name, table in TABLES.items():
            answers = {kind: play(row, send) for kind, row in table.items()}
            (RESPONSES / f"{name}.json").write_text(written(answers))


def written(answers: dict[str, dict[str, Any]]) -> str:
    """Return JSON with one line per case, so that changes in another release are a readable difference."""
    kinds = [
        f'"{kind}":{{\n'
        + ",\n".join(f"{json.dumps(case)}:{_compact(answer)}" for case, answer in sorted(cases.items()))
        + "}"
        for kind, cases in answers.items()
    ]
    return "{" + ",\n".join(kinds) + "}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def prepare(send: Exchange) -> None:
    """Create the namespace of the objects."""
    body = json.dumps({"metadata": {"name": NAMESPACE}}).encode()
    send(Given("POST", "/api/v1/namespaces", body, JSON, {}))
