"""Commands as HTTP requests, and responses as outcomes."""

from __future__ import annotations

from typing import Any

import orjson

from kcm.actors.reconciliation.actor_names import INFORMERS
from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    DeleteCollection,
    Fetch,
    Get,
    List,
    Patch,
    PatchType,
    Update,
)
from kcm.protocols.messages.outcomes import (
    AlreadyExists,
    Conflict,
    Done,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Outcome,
    Refused,
    ServerFailure,
    Throttled,
    Unknown,
)
from kcm.protocols.objects import Key, split_key
from kcm.protocols.resources import resource_path
from kcm.runtime.client.api import JSON, METADATA_LIST, Request, Response
from kcm.runtime.scheduling.permits import ALWAYS, Permit


def request_for(command: Command, *, permit: Permit = ALWAYS, manager: str = "") -> Request:
    """Return the HTTP request of a command.

    permit: checked when the request is sent.
    manager: field manager of an apply that names none.

    Raises TypeError if the command is not for the API server, ValueError if it does not name an object.
    """
    match command:
        case Create(resource, namespace, body, name, subresource, user):
            path = resource_path(resource, namespace, name, subresource)
            return Request(method="POST", path=path, body=body, permit=permit, user=user)
        case Update(resource, key, body, subresource):
            path = _object_path(resource, key, subresource)
            return Request(method="PUT", path=path, body=body, permit=permit)
        case Patch(resource, key, body, patch_type, subresource, field_manager, force, user):
            parameters = {"fieldManager": field_manager} if field_manager else {}
            if patch_type == PatchType.APPLY and not field_manager:
                parameters["fieldManager"] = manager
            if force:
                parameters["force"] = "true"
            path = _object_path(resource, key, subresource)
            return Request(
                method="PATCH",
                path=path,
                query=parameters,
                body=body,
                content_type=str(patch_type),
                permit=permit,
                user=user,
            )
        case Delete(resource, key):
            path = _object_path(resource, key)
            return Request(method="DELETE", path=path, body=_delete_options(command), permit=permit, user=command.user)
        case DeleteCollection(resource, namespace, labels, fields, propagation):
            options = {"kind": "DeleteOptions", "apiVersion": "v1"}
            if propagation is not None:
                options["propagationPolicy"] = propagation
            return Request(
                method="DELETE",
                path=resource_path(resource, namespace),
                query=_selectors(labels, fields) | _part(command),
                body=orjson.dumps(options),
                accept=METADATA_LIST,  # the response lists all deleted objects, which are not used
                permit=permit,
            )
        case Get(resource, key, as_informer=True):
            namespace, name = split_key(key)
            only = {"fieldSelector": f"metadata.name={_one_name(resource, key, name)}"}
            return Request(method="GET", path=resource_path(resource, namespace), query=only, permit=permit)
        case Get(resource, key, subresource):
            return Request(method="GET", path=_object_path(resource, key, subresource), permit=permit)
        case List(resource, namespace, labels, fields, metadata_only):
            path, chosen = resource_path(resource, namespace), _selectors(labels, fields) | _part(command)
            accept = METADATA_LIST if metadata_only else JSON
            return Request(method="GET", path=path, query=chosen, accept=accept, permit=permit)
        case Fetch(path, accept, query):
            return Request(method="GET", path=path, query=dict(query), accept=accept, permit=permit)
        case _:
            raise TypeError(f"not a command for the API server: {command!r}")


def _object_path(resource: str, key: Key, subresource: str = "") -> str:
    namespace, name = split_key(key)
    return resource_path(resource, namespace, _one_name(resource, key, name), subresource)


def _one_name(resource: str, key: Key, name: str) -> str:
    """Return the name. Raises ValueError if it is empty: a path without a name addresses the whole collection."""
    if not name:
        raise ValueError(f"the key {key!r} names no object of {resource}")
    return name


def _selectors(labels: str, fields: str) -> dict[str, str]:
    query = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in query.items() if value}


def _part(command: List | DeleteCollection) -> dict[str, str]:
    query = {"limit": str(command.limit or ""), "continue": command.continue_from}
    return {name: value for name, value in query.items() if value}


def _delete_options(command: Delete) -> bytes:
    options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
    preconditions = {
        name: value
        for name, value in (("uid", command.uid), ("resourceVersion", command.resource_version))
        if value is not None
    }
    if preconditions:
        options["preconditions"] = preconditions
    if command.grace_seconds is not None:
        options["gracePeriodSeconds"] = command.grace_seconds
    if command.propagation is not None:
        options["propagationPolicy"] = command.propagation
    return orjson.dumps(options)


DELETIONS = (Delete, DeleteCollection)


def is_destructive(command: Command) -> bool:
    """Report whether a command deletes or evicts objects."""
    kind = type(command)
    return kind in DELETIONS or (kind is Create and command.subresource == "eviction")  # type: ignore[union-attr]


def client_of(command: Command, client: str) -> str:
    """Return the client that sends this command. client: the sender's client."""
    return INFORMERS if isinstance(command, Get) and command.as_informer else client


def outcome_of(response: Response, command: Command | None = None) -> Outcome:
    """Return the outcome of a command from its response."""
    if 200 <= response.status < 300:
        if isinstance(command, Get) and command.as_informer:
            return _only_item(response.body, command)
        return Done(response.body)
    if response.status == 0:
        return Unknown(response.error) if response.sent else Refused(response.error)
    reason, message = _reason_and_message(response)
    status = response.body
    match response.status:
        case 404:
            return NotFound(message, status)
        case 409:
            return AlreadyExists(message, status) if reason == "AlreadyExists" else Conflict(message, status)
        case 401 | 403:
            return Forbidden(message, status, response.status)
        case 410:
            return Gone(message, status)
        case 429:
            return Throttled(message, status, response.retry_after)
        case code if code >= 500:
            # After a 504 the request may still have been carried out.
            return Unknown(message) if code == 504 else ServerFailure(message, status, code)
        case code:
            return Invalid(message, status, code)


def _only_item(body: bytes, command: Get) -> Outcome:
    """Return the outcome of a GET from a list. Items of built-in resources lack a kind; it is taken from the list."""
    try:
        found = orjson.loads(body)
        kind, items = str(found["kind"]).removesuffix("List"), found.get("items") or ()
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return Invalid(f"HTTP 200, but the body is not a list of {command.resource}")
    for item in items:
        return Done(orjson.dumps({"apiVersion": found.get("apiVersion"), "kind": kind, **item}))
    return NotFound(f"{command.resource} {split_key(command.key)[1]!r} not found")


def _reason_and_message(response: Response) -> tuple[str, str]:
    """Return reason and message of the metav1 Status in the body, if it contains one."""
    try:
        status = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return str(status.get("reason") or ""), str(status.get("message") or f"HTTP {response.status}")
    text = response.body[:200].decode("utf-8", "replace").strip()
    return "", f"HTTP {response.status}: {text}" if text else f"HTTP {response.status}"
