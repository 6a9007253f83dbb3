"""DELETE of one object and of a collection.

Source: apiserver pkg/endpoints/handlers/delete.go, pkg/registry/generic/registry/store.go, DeleteCollection (v1.36).
"""

from __future__ import annotations

from typing import Any

import orjson

from kcm.protocols.integers import INT64
from kcm.protocols.objects import Object, decode_object, encode_object, key_of
from kcm.runtime.apiserver.admission import chain
from kcm.runtime.apiserver.core.body_decoder import parse_json
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest, all_served, served
from kcm.runtime.apiserver.core.questions import Question, Unanswered
from kcm.runtime.apiserver.core.removal import BACKGROUND, FOREGROUND, ORPHAN, DeleteOptions, delete_object
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import invalid, not_supported
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.schema.scalars import json_type
from kcm.runtime.apiserver.storage.watches import WatchCache
from kcm.runtime.apiserver.verbs.integers import parse_int
from kcm.runtime.apiserver.verbs.options import dry_run_errors
from kcm.runtime.apiserver.verbs.read import asked_page
from kcm.runtime.client.api import Response


def delete(cluster: Cluster, call: RoutedRequest) -> Response:
    definition = call.definition
    options = parse_options(call)
    admit = chain.admit_delete(cluster, call, call.key, options_object(options))
    obj, gone = delete_object(cluster, definition, call.key, options, admit)
    if not gone or definition.strategy.return_deleted_object:
        return Response(status=200, body=served(definition, encode_object(obj)))
    meta = obj["metadata"]
    details = {"name": meta["name"], "group": definition.group, "kind": definition.plural, "uid": meta["uid"]}
    if not definition.group:
        del details["group"]
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Response(status=200, body=orjson.dumps(status))


def delete_collection(cluster: Cluster, cache: WatchCache, call: RoutedRequest) -> Response:
    """Delete the selected objects one after the other until one deletion is refused.

    The response is the list of the objects before their deletion.
    """
    definition, options = call.definition, parse_options(call)
    page, _ = asked_page(cluster, cache, call)
    asked: list[Question] = []
    for raw in page.items:
        key = key_of(decode_object(raw))
        try:
            admit = chain.admit_collection_delete(cluster, call, options_object(options))
            delete_object(cluster, definition, key, options, admit)
        except Unanswered as err:  # collect the questions of all objects, so that their webhooks are called in parallel
            asked += err.questions
        except StatusError as err:
            if asked:
                break
            if err.code != 404:
                raise
    if asked:
        raise Unanswered(asked)
    head = {
        "kind": definition.list_kind,
        "apiVersion": definition.api_version,
        "metadata": {"resourceVersion": str(cluster.state.revision)},
    }
    items = b",".join(all_served(definition, page.items))
    return Response(status=200, body=b"".join((orjson.dumps(head)[:-1], b',"items":[', items, b"]}")))


def options_object(options: DeleteOptions) -> Object:
    """Return the options as the DeleteOptions object that webhooks receive."""
    shown: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    if options.grace is not None:
        shown["gracePeriodSeconds"] = options.grace
    conditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    if any(value is not None for value in conditions.values()):
        shown["preconditions"] = {field: value for field, value in conditions.items() if value is not None}
    if options.propagation is not None:
        shown["propagationPolicy"] = options.propagation
    if options.dry_run:
        shown["dryRun"] = ["All"]
    return shown


def parse_options(call: RoutedRequest) -> DeleteOptions:
    """Parse the options of a deletion from the body or, if it is empty, from the query.

    Raises StatusError (400, 422).
    """
    given: dict[str, Any] = dict(call.query)
    if call.request.body.strip():
        try:
            given = parse_json(call.request.body)
        except ValueError as err:
            raise status_errors.bad_request(f"couldn't get version/kind; json parse error: {err}") from err
        if not isinstance(given, dict):
            raise status_errors.bad_request("decoded object cannot be converted to DeleteOptions")
    return options_in(given, dry_run=call.dry_run)


def options_in(given: dict[str, Any], *, dry_run: bool) -> DeleteOptions:
    """Parse a DeleteOptions object, or query parameters of the same names. Raises StatusError (400, 422)."""
    kind = given.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        raise status_errors.bad_request(f'no kind "{kind}" is registered for version "meta.k8s.io/v1"')
    preconditions = given.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise _mistyped(preconditions, "DeleteOptions.preconditions", "v1.Preconditions")
    return DeleteOptions(
        grace=_seconds(given.get("gracePeriodSeconds")),
        uid=_text(preconditions, "uid"),
        resource_version=_text(preconditions, "resourceVersion"),
        propagation=_propagation(given),
        dry_run=_dry_run(given) or dry_run,
    )


def _propagation(given: dict[str, Any]) -> str | None:
    policy, orphan = given.get("propagationPolicy"), given.get("orphanDependents")
    if policy is not None and orphan is not None:
        both = invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        raise status_errors.invalid("meta.k8s.io", "DeleteOptions", "", [both])
    if orphan is not None:
        return ORPHAN if orphan in (True, "true") else BACKGROUND
    if policy not in (None, FOREGROUND, BACKGROUND, ORPHAN):
        unknown = not_supported("propagationPolicy", policy, (FOREGROUND, BACKGROUND, ORPHAN, "nil"))
        raise status_errors.invalid("meta.k8s.io", "DeleteOptions", "", [unknown])
    return policy


def _dry_run(given: dict[str, Any]) -> bool:
    asked = given.get("dryRun") or []
    if isinstance(asked, str):
        asked = [asked]
    if not isinstance(asked, list):
        raise _mistyped(asked, "DeleteOptions.dryRun", "[]string")
    for value in asked:
        if not isinstance(value, str):
            raise _mistyped(value, "DeleteOptions.dryRun", "string")
    errors = dry_run_errors(asked)
    if errors:
        raise status_errors.invalid("meta.k8s.io", "DeleteOptions", "", errors)
    return bool(asked)


def _seconds(value: Any) -> int | None:
    if value is None or (type(value) is int and value in INT64):
        return value
    try:
        return parse_int(value)  # the value of a query parameter is a string
    except ValueError as err:
        raise status_errors.bad_request(str(err)) from err
    except TypeError as err:
        raise _mistyped(value, "DeleteOptions.gracePeriodSeconds", "int64") from err


def _text(preconditions: dict[str, Any], field: str) -> str | None:
    value = preconditions.get(field)
    if value is not None and not isinstance(value, str):
        raise _mistyped(value, f"Preconditions.preconditions.{field}", "string")
    return value


def _mistyped(value: Any, field: str, wanted: str) -> StatusError:
    text = f"json: cannot unmarshal {json_type(value)} into Go struct field {field} of type {wanted}"
    return status_errors.bad_request(text)
