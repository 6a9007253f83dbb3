"""Objects other than the one that a handler of kopf receives, which kopf does not cover: with the official client."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import kopf
from kubernetes import client, config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

MERGE = "application/merge-patch+json"


class Api:
    """Kinds of the official client by their name. lock: handlers of one object may run side by side."""

    def __init__(self, **kinds: tuple[str, str]) -> None:
        config.load_config(config_file=os.environ.get("KUBECONFIG"))
        dynamic = DynamicClient(client.ApiClient())
        self.lock = threading.Lock()
        for name, (api_version, kind) in kinds.items():
            setattr(self, name, dynamic.resources.get(api_version=api_version, kind=kind))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no kind {name}")


def get(kind: Any, name: str, namespace: str | None = None) -> Any:
    with suppress(NotFoundError):
        return kind.get(name=name, namespace=namespace).to_dict()
    return None


def is_owned(obj: Any, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences", []))


def apply(kind: Any, name: str, namespace: str | None, owner: Any, label: str, **fields: Any) -> Any:
    """Create or change an object of the owner, with a label that names the owner."""
    body = {"apiVersion": kind.group_version, "kind": kind.kind, "metadata": {"name": name}, **fields}
    kopf.append_owner_reference(body, owner=owner)
    kopf.label(body, {label: owner["metadata"]["name"]})
    where = {"name": name, "namespace": namespace}
    return kind.server_side_apply(body=body, **where, field_manager="kopf", force_conflicts=True).to_dict()


def follow_dependents(kind: Callable[[kopf.Memo], Any], label: str, *resources: tuple[str, ...]) -> None:
    """Call the handlers of the owner for changes of its dependents.

    It is annotated, because kopf retries handlers of changes if they fail, but not those of events.
    """

    def look_again(event: Any, body: kopf.Body, memo: kopf.Memo, namespace: str | None, **_: Any) -> None:
        if event["type"] in ("MODIFIED", "DELETED"):
            mark = {"example.com/look-again": f"{body['kind']} {body['metadata']['resourceVersion']}"}
            for owner in body["metadata"].get("ownerReferences", []):
                patch = {"metadata": {"uid": owner["uid"], "annotations": mark}}
                where = {"name": owner["name"], "namespace": namespace if kind(memo).namespaced else None}
                with suppress(NotFoundError, ConflictError):  # it was deleted, or another owner has its name
                    kind(memo).patch(body=patch, **where, content_type=MERGE)

    for resource in resources:
        kopf.on.event(*resource, labels={label: kopf.PRESENT})(look_again)


def report(kind: Any, obj: Any, changes: dict[str, Any], ready: str, reason: str, message: str) -> None:
    """Write the condition Ready and other fields of the status if they differ, and record an event."""
    status, meta = obj.get("status") or {}, obj["metadata"]
    before: dict[str, Any] = next(iter(status.get("conditions", [])), {})
    since = before["lastTransitionTime"] if before.get("status") == ready else f"{datetime.now(UTC):%FT%TZ}"
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": message, "lastTransitionTime": since}
    changes |= {"conditions": [{**condition, "observedGeneration": changes["observedGeneration"]}]}
    if {**status, **changes} != status:
        body = {"metadata": {"uid": meta["uid"]}, "status": changes}
        kind.status.patch(body=body, name=meta["name"], namespace=meta.get("namespace"), content_type=MERGE)
        kopf.event(obj, type="Normal" if ready == "True" else "Warning", reason=reason, message=message)
