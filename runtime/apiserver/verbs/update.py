"""PUT of an object or of its status, and `replace`, which carries out every change of a stored object.

Source: apiserver pkg/endpoints/handlers/update.go, pkg/registry/generic/registry/store.go, Store.Update,
pkg/registry/rest/update.go, BeforeUpdate (v1.36).
"""

from __future__ import annotations

from functools import partial

from kcm.protocols.objects import Object, decode_object, encode_object
from kcm.runtime.apiserver.admission import chain
from kcm.runtime.apiserver.core import metadata
from kcm.runtime.apiserver.core.body_decoder import decode_body
from kcm.runtime.apiserver.core.cluster import (
    Cluster,
    RoutedRequest,
    encoded,
    put_object,
    read_stored,
    served,
    stored_form,
)
from kcm.runtime.apiserver.core.field_managers import keep_times, record_update
from kcm.runtime.apiserver.core.long_computations import carried_out, key_of
from kcm.runtime.apiserver.core.removal import is_deletion_complete
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.object_meta import validate_metadata, validate_metadata_update
from kcm.runtime.apiserver.storage.state import StoredObject
from kcm.runtime.apiserver.verbs.create import create_object
from kcm.runtime.apiserver.verbs.options import check_update_options
from kcm.runtime.client.api import Response

STATUS = "status"


def update(cluster: Cluster, call: RoutedRequest) -> Response:
    definition = call.definition
    check_update_options(call.query)
    obj = decode_body(cluster, definition, call.request.body)
    metadata.settle_namespace(call.route, obj)
    metadata.check_name(call.route, obj)
    record = cluster.state.get(definition.storage, call.key)
    if record is None and definition.strategy.allow_create_on_update and not call.route.subresource:
        if obj["metadata"].get("uid"):
            raise _another_uid(definition, call.key, obj["metadata"]["uid"], "")
        obj["metadata"].pop("resourceVersion", None)
        made = create_object(cluster, definition, obj, call)
        return Response(status=201, body=made)
    record = cluster.record(definition, call.key)
    old = read_stored(definition, record.raw)
    uid = obj["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"]:
        raise _another_uid(definition, call.key, uid, old["metadata"]["uid"])
    body = replace(cluster, call, record, old, stored_form(definition, obj))
    return Response(status=200, body=body)


def replace(
    cluster: Cluster, call: RoutedRequest, record: StoredObject, old: Object, new: Object, *, applied: bool = False
) -> bytes:
    """Replace a stored object, and return the body of the response. Raises StatusError.

    record: the object as it is stored
    old: the decoded object, in stored form; it is not changed
    new: the replacement in stored form. It may share parts with old, so every part that is changed here is copied.
    applied: whether new has the managedFields to store (server-side apply); otherwise they are computed here
    """
    definition, strategy = call.definition, call.definition.strategy
    new = chain.admit_update(cluster, call, new, old)
    if strategy.confirm is not None:
        strategy.confirm(new, old, call.user, cluster.access(call.route.name))
    _check_version(definition, call.key, record, new)
    metadata.carry_over(new, old)
    errors = validate_metadata(definition, new["metadata"])
    # Upstream validates the metadata twice, in general and for the kind, and reports each error twice.
    errors += 2 * validate_metadata_update(new["metadata"], old["metadata"])
    part = strategy.subresource_updates.get(call.route.subresource)
    if part is not None:
        if not applied:
            record_update(cluster, call, new, old)
        chain.admit_subresource(cluster, call, new)
        part.prepare(new, old, cluster.timestamp())
        errors += part.validate(new, old)
    elif call.route.subresource == STATUS:
        _keep_all_but_status(definition, new, old)
        if not definition.dynamic and (not strategy.status_may_be_missing or new.get("status")):
            new["status"] = {**strategy.empty_status, **(new.get("status") or {})}
        strategy.set_defaults(new)
        strategy.prepare_for_status_update(new, old)
        if not applied:
            record_update(cluster, call, new, old)
        errors += carried_out(
            cluster, partial(key_of, STATUS, definition, new, old), lambda: strategy.validate_status_update(new, old)
        )
        verb = "patch" if call.request.method == "PATCH" else "update"
        errors = errors or strategy.permit_status(cluster, new, old, call.user, verb)
    else:
        _keep_status(definition, new, old, finalizing=call.route.subresource == "finalize")
        strategy.set_defaults(new)
        strategy.set_times(new, None, cluster.timestamp())
        if not applied:
            record_update(cluster, call, new, old)
        chain.mutate_update(cluster, definition, new, old)
        strategy.set_times(new, old, cluster.timestamp())
        strategy.reallocate(cluster, new, old)
        if strategy.has_generation and _counts_as_generation(definition, new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        errors += carried_out(
            cluster, partial(key_of, "update", definition, new, old), lambda: _wrong_with(strategy, new, old)
        )
        errors = errors or strategy.permit(cluster, new, old, call.user)
    if errors:
        raise status_errors.invalid(definition.stored_group, definition.kind, call.route.name, errors)
    if not call.route.subresource:
        call.warn_all(strategy.warn(new, old))
    strategy.canonicalize(new)
    keep_times(new, old)
    charges = chain.check_update(cluster, call, new, old)
    return _store(cluster, call, record, old, new, charges, applied=applied)


def _wrong_with(strategy: Strategy, new: Object, old: Object) -> list[FieldError]:
    """Return the validation errors of the object and of its change."""
    of_object = [] if strategy.update_is_judged_whole else strategy.validate(new)
    of_change = strategy.validate_update(new, old)
    return [*of_change, *of_object] if strategy.change_is_judged_first else [*of_object, *of_change]


def _store(
    cluster: Cluster,
    call: RoutedRequest,
    record: StoredObject,
    old: Object,
    new: Object,
    charges: list[chain.Charge],
    *,
    applied: bool,
) -> bytes:
    definition = call.definition
    new["metadata"]["resourceVersion"] = str(record.revision)
    if new == old and definition.decode is None:
        return served(definition, record.raw)
    stored = encoded(definition, new)
    if definition.decode is not None and stored == decode_object(record.raw):
        return served(definition, record.raw)
    if call.dry_run or is_deletion_complete(definition, new):
        # The response to the removal of the last finalizer is the new object with the replaced resourceVersion.
        shown = encode_object(stored)
        if not call.dry_run:
            cluster.state.remove(definition.storage, call.key, stored)
    else:
        chain.charge(cluster, charges)
        shown = put_object(cluster, definition, call.key, stored, keeps_managers=applied)
    return served(definition, shown)


def _check_version(definition: ResourceDefinition, key: str, record: StoredObject, new: Object) -> None:
    name = key.rpartition("/")[2]
    asked = new["metadata"].get("resourceVersion") or ""
    if asked in ("", "0"):
        if not definition.strategy.allow_unconditional_update:
            missing = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise status_errors.invalid(definition.group, definition.plural, name, [missing])
    elif asked != str(record.revision):
        raise status_errors.conflict(definition.group, definition.plural, name)


def _another_uid(definition: ResourceDefinition, key: str, expected: str, found: str) -> StatusError:
    """Return the error for a uid that differs, with the text of upstream's storage layer, which clients match."""
    because = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{definition.plural}/{key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {expected}, UID in object meta: {found}"
    )
    return status_errors.conflict(definition.group, definition.plural, key.rpartition("/")[2], because)


def _keep_status(definition: ResourceDefinition, new: Object, old: Object, *, finalizing: bool) -> None:
    """Restore the stored status, and fields that only other subresources may change, in an update of the object."""
    if definition.strategy.has_status:
        _take(new, old, STATUS)
    if definition.strategy.update_keeps and not finalizing:
        new["spec"] = dict(new.get("spec") or {})
        for part in definition.strategy.update_keeps:
            _take(new["spec"], old.get("spec") or {}, part)


def _keep_all_but_status(definition: ResourceDefinition, new: Object, old: Object) -> None:
    """Restore everything except the status and most of the metadata in an update of the status."""
    for part in {*new, *old} - {STATUS, "metadata", "kind", "apiVersion"}:
        _take(new, old, part)
    for part in definition.strategy.status_update_keeps:
        _take(new["metadata"], old["metadata"], part)


def _take(new: Object, old: Object, part: str) -> None:
    if part in old:
        new[part] = old[part]
    else:
        new.pop(part, None)


def _counts_as_generation(definition: ResourceDefinition, new: Object, old: Object) -> bool:
    parts = {*new, *old} - {"metadata", *((STATUS,) if definition.strategy.has_status else ())}
    if any(new.get(part) != old.get(part) for part in parts):
        return True
    annotations, before = new["metadata"].get("annotations"), old["metadata"].get("annotations")
    return definition.strategy.annotations_bump_generation and (annotations or {}) != (before or {})
