"""Variables of admission expressions: the request and its objects, as policies and webhooks see them.

Source: apiserver pkg/admission/plugin/cel/{activation,condition}.go, pkg/cel/library/authz.go (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcm.protocols.objects import Object, decode_object
from kcm.runtime.apiserver.admission.attributes import NAMESPACES, Attributes
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import GroupVersionKind
from kcm.runtime.apiserver.registry.users import ACCOUNTS, Access, User

if TYPE_CHECKING:
    from kcm.runtime.cel.libraries import authorization
    from kcm.runtime.cel.values import Value

_NAMESPACE_FIELDS = frozenset(
    {
        *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
        *("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers"),
    }
)


def to_version(attributes: Attributes, definition: ResourceDefinition, obj: Object) -> Object:
    """Convert an object from the request's API version to the version of another definition of the same resource.

    The body of a subresource is returned unchanged.
    """
    if definition is attributes.definition or not attributes.is_whole:
        return obj
    return _converted(attributes.definition, definition, obj)


def to_request_version(attributes: Attributes, definition: ResourceDefinition, obj: Object) -> Object:
    """Convert an object from the version of a definition to the request's API version: the inverse of to_version."""
    if definition is attributes.definition or not attributes.is_whole:
        return obj
    return _converted(definition, attributes.definition, obj)


def _converted(source: ResourceDefinition, target: ResourceDefinition, obj: Object) -> Object:
    stored = obj if source.to_storage is None else source.to_storage(obj)
    return stored if target.from_storage is None else target.from_storage(stored)


def expression_variables(
    cluster: Cluster,
    attributes: Attributes,
    definition: ResourceDefinition,
    kind: GroupVersionKind,
    *,
    params: Object | None,
) -> dict[str, Value]:
    """Return the CEL variables of a policy: object, oldObject, request, namespaceObject, params and authorizer.

    definition, kind: API version in which the expressions see the object
    params: the parameter object; None if the binding has no parameters

    Raises StatusError (404) if the namespace does not exist.
    """
    from kcm.runtime.cel.admission import names

    new, old = (
        None if obj is None else to_version(attributes, definition, obj) for obj in (attributes.obj, attributes.old)
    )
    return names(
        new=new,
        old=old,
        request=request_of(attributes, definition, kind),
        namespace=_namespace_object(cluster, attributes),
        params=params,
        authorize=authorizer_of(cluster, attributes.call.user),
    )


def request_of(attributes: Attributes, wanted: ResourceDefinition, kind: GroupVersionKind) -> dict[str, Any]:
    """Return the fields of an AdmissionRequest, without empty ones and without uid, object and oldObject.

    wanted, kind: resource and kind in the API version that the webhook or policy sees; those of the request itself are
      in the fields requestResource and requestKind
    """
    call, definition = attributes.call, attributes.definition
    user = call.user
    info: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    info["extra"] = {key: list(values) for key, values in user.extra.items()}
    request: dict[str, Any] = {
        "kind": _kind(kind),
        "resource": _resource(wanted.group, wanted.version, wanted.plural),
        "subResource": attributes.subresource,
        "requestKind": _kind(attributes.kind),
        "requestResource": _resource(definition.group, definition.version, definition.plural),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": {field: value for field, value in info.items() if value},
        "dryRun": call.dry_run or attributes.options.get("dryRun") == ["All"],
        "options": attributes.options or None,
    }
    return {field: value for field, value in request.items() if value != ""}


def _kind(kind: GroupVersionKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(group: str, version: str, plural: str) -> dict[str, str]:
    return {"group": group, "version": version, "resource": plural}


def _namespace_object(cluster: Cluster, attributes: Attributes) -> Object | None:
    """Return the namespace of the object, with the metadata that expressions may read. Raises StatusError (404).

    Returns None for a cluster-scoped object and for a Namespace.
    """
    if not attributes.namespace or attributes.definition.storage == NAMESPACES:
        return None
    record = cluster.state.get(NAMESPACES, attributes.namespace)
    if record is None:
        raise status_errors.not_found("", NAMESPACES, attributes.namespace)
    whole = decode_object(record.raw)
    meta = {field: value for field, value in whole["metadata"].items() if field in _NAMESPACE_FIELDS}
    return {"metadata": meta, "spec": whole.get("spec") or {}, "status": whole.get("status") or {}}


def authorizer_of(cluster: Cluster, user: User) -> authorization.Ask:
    """Return the function that CEL's `authorizer` calls to check permissions of a user, or of a service account."""
    from kcm.runtime.cel.libraries.authorization import CheckAttributes, DecisionValue

    def ask(check: CheckAttributes) -> DecisionValue:
        who = user
        if check.account is not None:
            namespace, name = check.account
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
            who = User(f"{ACCOUNTS}{namespace}:{name}", groups=groups)
        if check.path:
            wanted: dict[str, Any] = {"path": check.path, "verb": check.verb}
        else:
            wanted = {
                "verb": check.verb,
                "group": check.group,
                "version": "*",
                "resource": check.resource,
                "subresource": check.subresource,
                "namespace": check.namespace,
                "name": check.name,
            }
        decision = cluster.authorize(Access(who, {field: value for field, value in wanted.items() if value}))
        return DecisionValue(decision.allowed, decision.reason)

    return ask
