"""POST of new objects to a collection.

Source: apiserver pkg/endpoints/handlers/create.go, pkg/registry/generic/registry/store.go, Store.Create (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kcm.protocols.objects import Object, encode_object, make_key
from kcm.runtime.apiserver.access.refusals import not_authorized
from kcm.runtime.apiserver.admission import chain
from kcm.runtime.apiserver.core import metadata
from kcm.runtime.apiserver.core.body_decoder import decode_body
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest, encoded, put_object, served, stored_form
from kcm.runtime.apiserver.core.field_managers import SERVER as SELF
from kcm.runtime.apiserver.core.field_managers import record_new, update_manager
from kcm.runtime.apiserver.core.long_computations import carried_out, key_of
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.request_info import review_info
from kcm.runtime.apiserver.registry.users import ADMIN as SERVER
from kcm.runtime.apiserver.registry.users import Access, User
from kcm.runtime.apiserver.rules.object_meta import validate_metadata
from kcm.runtime.apiserver.verbs.options import check_create_options
from kcm.runtime.client.api import Response

GENERATE_ATTEMPTS = 8


def create(cluster: Cluster, call: RoutedRequest) -> Response:
    definition = call.definition
    check_create_options(call.query)
    obj = decode_body(cluster, definition, call.request.body)
    metadata.settle_namespace(call.route, obj)
    if definition.strategy.review is not None:
        return _reviewed(cluster, call, obj, definition.strategy.review)
    return Response(status=201, body=create_object(cluster, definition, obj, call))


def create_object(
    cluster: Cluster,
    definition: ResourceDefinition,
    obj: Object,
    call: RoutedRequest | None = None,
    *,
    manager: str | None = None,
) -> bytes:
    """Store a new object, and return the body of the response in the API version of the definition. Raises StatusError.

    Each step sees the results of the earlier steps, so the order is upstream's: metadata set by the server, conversion,
    defaults, managedFields, mutating admission, generateName, allocation, preparation, validation, validating
    admission, storage.

    call: the request; None if the server itself creates the object
    manager: field manager of all fields; "" if the object has its managedFields already, None for the field manager of
      the request
    """
    requester = SERVER if call is None else call.user
    if manager is None:
        manager = SELF if call is None else update_manager(call).name
    meta = obj["metadata"]
    given_version = meta.get("resourceVersion")
    metadata.initialize(cluster, definition, obj)
    obj = stored_form(definition, obj)
    generated = not meta.get("name") and bool(meta.get("generateName"))
    strategy = definition.strategy
    strategy.set_defaults(obj)
    strategy.set_times(obj, None, cluster.timestamp())
    if manager:
        record_new(cluster, definition, obj, manager=manager)
    obj = chain.admit_create(cluster, definition, obj, call)
    meta = obj["metadata"]
    if strategy.confirm is not None:
        strategy.confirm(obj, None, requester, cluster.access("" if call is None else call.route.name))
    if generated:  # after admission, so that an object that plugins refuse has no name yet
        meta["name"] = _generated_name(cluster, definition, meta)
    meta.setdefault("name", "")  # validation reports the empty name together with other errors
    _prepare(cluster, definition, obj, call, requester)
    _validate(cluster, definition, obj, requester)
    if given_version:
        raise status_errors.version_on_create()
    if call is not None:
        call.warn_all(strategy.warn(obj, None))
    strategy.canonicalize(obj)
    if call is not None and call.request.method != "POST":
        _authorize_creation(cluster, call)
    charges = chain.check_create(cluster, definition, obj, call)
    key = _free_key(cluster, definition, obj, generated=generated)
    if call is not None and call.dry_run:
        return served(definition, encode_object(encoded(definition, obj)))
    chain.charge(cluster, charges)
    applied = call is not None and call.request.method == "PATCH"
    return served(definition, put_object(cluster, definition, key, encoded(definition, obj), keeps_managers=applied))


def _prepare(
    cluster: Cluster, definition: ResourceDefinition, obj: Object, call: RoutedRequest | None, requester: User
) -> None:
    """Allocate addresses and ports, and set the first status (upstream's BeginCreate and PrepareForCreate)."""
    strategy = definition.strategy
    strategy.allocate(cluster, obj)
    if strategy.has_status and not strategy.status_on_create:
        obj.pop("status", None)
    if strategy.has_status and not definition.dynamic and not strategy.status_may_be_missing:
        obj["status"] = {**strategy.empty_status, **(obj.get("status") or {})}
    for text in strategy.prepare_for_create(obj) or ():
        if call is not None:
            call.warn(text)
    strategy.set_requester(obj, requester)


def _validate(cluster: Cluster, definition: ResourceDefinition, obj: Object, requester: User) -> None:
    """Raise StatusError (422) if the object is invalid, or refers to something that the requester may not use."""
    strategy, meta = definition.strategy, obj["metadata"]
    errors = carried_out(
        cluster,
        partial(key_of, "create", definition, obj),
        lambda: [*validate_metadata(definition, meta), *strategy.validate(obj), *strategy.validate_create(obj)],
    )
    errors = errors or strategy.permit(cluster, obj, None, requester)
    if errors:
        raise status_errors.invalid(definition.stored_group, definition.kind, meta.get("name", ""), errors)


def _authorize_creation(cluster: Cluster, call: RoutedRequest) -> None:
    """Raise StatusError (403) if a user who may update or apply the object may not create it.

    Source: apiserver pkg/endpoints/handlers/update.go, withAuthorization (v1.36), which authorizes at this point too.
    """
    definition, found = call.definition, call.route
    attributes = {
        "verb": "create",
        "group": definition.group,
        "version": definition.version,
        "resource": definition.plural,
        "namespace": found.namespace,
        "name": found.name,
    }
    decision = cluster.authorize(Access(call.user, attributes))
    if not decision.allowed:
        raise not_authorized(call.user.name, review_info(attributes), decision.reason)


def _reviewed(cluster: Cluster, call: RoutedRequest, obj: Object, review: Callable[..., list[FieldError]]) -> Response:
    """Respond to a review (such as SubjectAccessReview), which is not stored. Raises StatusError (422)."""
    definition = call.definition
    obj = chain.admit_body(cluster, call, definition, obj)
    errors = review(obj, call.user, cluster.access())
    if errors:
        raise status_errors.invalid(definition.group, definition.kind, "", errors)
    return Response(status=201, body=encode_object(obj))


def _generated_name(cluster: Cluster, definition: ResourceDefinition, meta: Object) -> str:
    """Generate a free name from generateName. If GENERATE_ATTEMPTS names are taken, return the last one."""
    collection = cluster.state.collection(definition.storage)
    for _ in range(GENERATE_ATTEMPTS):
        name = metadata.generated_name(cluster, meta["generateName"])
        if collection.get(make_key(meta.get("namespace", ""), name)) is None:
            break
    return name


def _free_key(cluster: Cluster, definition: ResourceDefinition, obj: Object, *, generated: bool) -> str:
    """Return the key of a new object. Raises StatusError (409) if an object with this key exists."""
    meta = obj["metadata"]
    key = make_key(meta.get("namespace", ""), meta["name"])
    taken = cluster.state.collection(definition.storage).get(key)
    if taken is None:
        return key
    if generated:
        raise status_errors.generated_name_exists(definition.group, definition.plural, meta["name"])
    error = status_errors.already_exists(definition.group, definition.plural, meta["name"])
    if cluster.is_deleting(taken):
        error.message = f"object is being deleted: {error.message}"
    raise error
